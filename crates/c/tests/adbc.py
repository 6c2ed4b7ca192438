"""Writes and reads frames through the ADBC driver: `adbc.py LIBRARY DIRECTORY`. Prints "all is well"."""

import datetime
import decimal
import sys
import threading

import adbc_driver_manager
import adbc_driver_manager.dbapi as dbapi
import pandas
import polars
import pyarrow

library, directory = sys.argv[1:3]
UTC = datetime.timezone.utc
START = datetime.datetime(2026, 1, 1)


def connect(**options):
    autocommit = options.pop("autocommit", False)
    return dbapi.connect(driver=library, db_kwargs={"path": directory, **options}, autocommit=autocommit)


def equal(given, expected):
    assert given == expected, f"{given!r} is not {expected!r}"


def fails(kind, sqlstate, action):
    try:
        action()
    except kind as error:
        equal(error.sqlstate, sqlstate)
        return str(error)
    raise AssertionError(f"{sqlstate} was expected")


def db_api():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id BIGINT, ts TIMESTAMP(6), v DOUBLE, note TEXT, PRIMARY KEY (id, ts))")
        cursor.execute("INSERT INTO t VALUES ($1, $2, $3, $4)", (1, START, 0.5, "a"))
        rows = [(number, START + datetime.timedelta(hours=number), number / 4, None) for number in range(2, 6)]
        cursor.executemany("INSERT INTO t VALUES ($1, $2, $3, $4)", rows)
        cursor.execute("SELECT id, ts, v, note FROM t WHERE ts >= $1 ORDER BY id", (START,))
        equal(cursor.fetchall(), [(1, START, 0.5, "a"), *rows])
        connection.rollback()
        cursor.execute("SELECT count(*), 1 FROM t")
        equal([column[0] for column in cursor.description], ["count", "?column?"])
        equal(cursor.fetchone(), (0, 1))
        cursor.executemany("INSERT INTO t VALUES ($1, $2, $3, $4)", rows)
        connection.commit()
        cursor.execute("SELECT sum(v) AS total FROM t")
        equal(cursor.fetch_arrow_table().to_pydict(), {"total": [3.5]})
        fails(dbapi.ProgrammingError, "42P01", lambda: cursor.execute("SELECT * FROM nothing"))
        fails(dbapi.ProgrammingError, "42601", lambda: cursor.execute("SELEC 1"))
        info = connection.adbc_get_info()
        equal((info["vendor_name"], info["driver_adbc_version"]), ("FleetDB", 1001000))
        equal(connection.adbc_get_table_types(), ["TABLE", "VIEW"])
        equal(connection.adbc_get_table_schema("t").field("ts").type, pyarrow.timestamp("us"))
        objects = connection.adbc_get_objects(depth="columns", table_name_filter="t").read_all().to_pylist()
        (table,) = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
        equal([column["column_name"] for column in table["table_columns"]], ["id", "ts", "v", "note"])
        equal(table["table_constraints"][0]["constraint_column_names"], ["id", "ts"])


def every_type():
    table = pyarrow.table({
        "id": pyarrow.array([1, 2], pyarrow.int32()),
        "at": pyarrow.array([START, None], pyarrow.timestamp("ns")),
        "zoned": pyarrow.array([START.replace(tzinfo=UTC), None], pyarrow.timestamp("ms", "Europe/Berlin")),
        "truth": [True, None],
        "small": pyarrow.array([-1, None], pyarrow.int8()),
        "large": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
        "real": pyarrow.array([0.5, float("nan")], pyarrow.float32()),
        "price": pyarrow.array([decimal.Decimal("-12.50"), None], pyarrow.decimal128(12, 2)),
        "text": pyarrow.array(["ä", None], pyarrow.large_string()),
        "view": pyarrow.array(["long enough not to be inline", None], pyarrow.string_view()),
        "kind": pyarrow.array(["x", "x"]).dictionary_encode(),
        "bytes": [b"\0\xff", None],
        "day": pyarrow.array([datetime.date(1969, 12, 31), None]),
        "clock": pyarrow.array([datetime.time(23, 59, 59, 999999), None], pyarrow.time64("us")),
        "list": pyarrow.array([[1, None], None], pyarrow.list_(pyarrow.int64())),
    })
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"fleetdb.ingest.time": ""})
        equal(cursor.adbc_ingest("types", table, mode="create"), 2)
        cursor.execute("SELECT * FROM types ORDER BY id")
        given = cursor.fetch_arrow_table()
        for name in table.column_names:
            expected = table.column(name)
            if name == "kind":
                expected = expected.cast(pyarrow.string())
            texts = (str(given.column(name).to_pylist()), str(expected.to_pylist()))
            if name == "zoned":
                texts = tuple(str(column.cast(pyarrow.int64()).to_pylist()) for column in (given.column(name), expected))
            equal(*texts)


def polars_frames():
    frame = polars.DataFrame({
        "meter": ["a", "a", "b"],
        "ts": [START, START + datetime.timedelta(hours=1), START],
        "kwh": [0.5, 0.25, None],
    })
    with connect() as connection:
        equal(frame.write_database("polars_reads", connection, if_table_exists="fail", engine="adbc"), 3)
        equal(frame.write_database("polars_reads", connection, if_table_exists="append", engine="adbc"), 3)
        given = polars.read_database("SELECT * FROM polars_reads ORDER BY meter, ts", connection)
        assert given.equals(frame), given
        equal(frame.head(1).write_database("polars_reads", connection, if_table_exists="replace", engine="adbc"), 1)
        equal(polars.read_database("SELECT count(*) AS n FROM polars_reads", connection).item(), 1)


def pandas_frames():
    frame = pandas.DataFrame({"meter": [1, 1, 2], "ts": pandas.date_range("2026-01-01", periods=3, freq="h"), "kwh": [0.5, 1.0, 2.0]})
    with connect() as connection:
        equal(frame.to_sql("pandas_reads", connection, index=False), 3)
        equal(frame.to_sql("pandas_reads", connection, index=False, if_exists="append"), 3)
        given = pandas.read_sql("SELECT meter, ts, kwh FROM pandas_reads ORDER BY ts", connection)
        equal(given["kwh"].tolist(), [0.5, 1.0, 2.0])
        equal(given["ts"].tolist(), frame["ts"].tolist())
        equal(frame.head(2).to_sql("pandas_reads", connection, index=False, if_exists="replace"), 2)
        equal(pandas.read_sql("SELECT count(*) AS n FROM pandas_reads", connection)["n"].tolist(), [2])
        try:
            frame.to_sql("pandas_reads", connection, index=False)
        except ValueError:
            return
        raise AssertionError("the table exists")


def many_rows():
    count = 250_000
    table = pyarrow.table({
        "meter": pyarrow.array([number % 1000 for number in range(count)]),
        "ts": pyarrow.array(range(count), pyarrow.timestamp("us")),
        "kwh": pyarrow.array([number / 8 for number in range(count)]),
    })
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        reader = table.to_reader(max_chunksize=10_000)
        equal(cursor.adbc_ingest("many", reader, mode="create"), count)
        cursor.execute("SELECT * FROM many")
        with cursor.fetch_record_batch() as rows:
            equal(sum(batch.num_rows for batch in rows), count)
        double = table.slice(0, 2)
        double = pyarrow.concat_tables([double, double])
        said = fails(dbapi.IntegrityError, "23505", lambda: cursor.adbc_ingest("double", double, mode="create"))
        assert "fleetdb.ingest.key" in said, said
        fails(dbapi.ProgrammingError, "42P01", lambda: cursor.execute("SELECT * FROM double"))


def cancelling():
    endless = "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y) WHERE x + y < 0"
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(endless)
        timers = [threading.Timer(delay, connection.adbc_cancel) for delay in (0.2, 0.5, 1.0)]
        for timer in timers:
            timer.start()
        try:
            cursor.fetchall()
        except Exception as error:
            # The error of a stream has no other place for the SQLSTATE.
            assert "57014" in str(error), repr(error)
        else:
            raise AssertionError("it was not cancelled")
        finally:
            for timer in timers:
                timer.cancel()


def reading_beside_a_writer():
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        with connect(read_only="true") as reader, reader.cursor() as reading:
            cursor.execute("INSERT INTO t VALUES (99, '2026-01-01', 1, 'new')")
            reading.execute("SELECT note FROM t WHERE id = 99")
            equal(reading.fetchone(), ("new",))
            fails(dbapi.Error, "25006", lambda: reading.execute("DELETE FROM t WHERE id = 99"))


for test in [db_api, every_type, polars_frames, pandas_frames, many_rows, cancelling, reading_beside_a_writer]:
    try:
        test()
    except BaseException:
        print(f"in {test.__name__}, with adbc_driver_manager {adbc_driver_manager.__version__}:", file=sys.stderr)
        raise
print("all is well")
