"""Rows of frames, columns and lists, in and out."""

import datetime
import decimal
import uuid

import fleetdb
import pytest

UTC = datetime.timezone.utc


def rows(db, table="t", order="1"):
    return db.sql(f"SELECT * FROM {table} ORDER BY {order}").fetchall()


def test_a_table_is_created_from_the_columns_of_a_frame(db):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "meter": [7, 7],
            "ts": [datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(2026, 1, 1)],
            "kwh": [0.5, None],
            "note": ["a", None],
        }
    )
    written = db.insert("t", frame, time="ts", key="meter", create=True)
    assert (written.rows, written.durability) == (2, "sync")
    assert [(column.name, column.role) for column in db.schema("t")] == [
        ("meter", "key"),
        ("ts", "time"),
        ("kwh", "field"),
        ("note", "field"),
    ]
    assert db.sql("SELECT * FROM t ORDER BY ts").pl().equals(frame)
    # Once more, which replaces the rows, and into columns of another order.
    assert db.insert("t", frame.select("ts", "meter"), create=True).rows == 2
    assert [row[2:] for row in rows(db)] == [(None, None), (None, None)]


def test_the_first_device_and_the_first_time_are_the_key_by_default(db):
    db.insert("t", {"kwh": [0.5], "at": [datetime.datetime(2026, 1, 1)], "meter": [7], "other": [1]}, create=True)
    assert [column.role for column in db.schema("t")] == ["field", "time", "key", "field"]
    db.insert("only", {"at": [datetime.datetime(2026, 1, 1)], "v": [1]}, key=[], create=True)
    assert [column.role for column in db.schema("only")] == ["time", "field"]
    db.insert("things", {"id": ["a"], "v": [1.5]}, create=True)
    assert [column.role for column in db.schema("things")] == ["key", "field"]
    with pytest.raises(fleetdb.ProgrammingError, match="no column 'nope'"):
        db.insert("u", {"id": [1]}, key="nope", create=True)
    with pytest.raises(fleetdb.ProgrammingError, match="'v' has no value"):
        db.insert("u", {"id": [1], "v": [None]}, create=True)
    with pytest.raises(fleetdb.ProgrammingError) as raised:
        db.insert("u", {"id": [1]})
    assert raised.value.code == "42P01"


def test_a_table_with_two_columns_of_one_name_is_refused(db):
    pyarrow = pytest.importorskip("pyarrow")
    twice = pyarrow.table([pyarrow.array([1]), pyarrow.array([2]), pyarrow.array([3])], names=["id", "v", "v"])
    with pytest.raises(fleetdb.ProgrammingError, match="specified more than once") as raised:
        db.insert("t", twice, create=True)
    assert raised.value.code == "42701"
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
    with pytest.raises(fleetdb.ProgrammingError, match="specified more than once") as raised:
        db.insert("t", twice)
    assert raised.value.code == "42701"
    assert rows(db) == []


def test_rows_and_columns_of_objects_need_no_other_library(db):
    db.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP(6), v DOUBLE, note TEXT, PRIMARY KEY (id, ts))")
    at = datetime.datetime(2026, 1, 1)
    assert db.insert("t", [(1, at, 0.5, "a"), (2, at, 1, None)]).rows == 2
    assert db.insert("t", [{"id": 3, "ts": at}, {"id": 4, "ts": at, "note": "b"}]).rows == 2
    assert db.insert("t", {"id": [5], "ts": [at], "v": [None]}).rows == 1
    assert db.insert("t", []).rows == 0
    assert rows(db) == [
        (1, at, 0.5, "a"),
        (2, at, 1.0, None),
        (3, at, None, None),
        (4, at, None, "b"),
        (5, at, None, None),
    ]
    with pytest.raises(ValueError, match="row 2 has 1 values, but there are 4 columns"):
        db.insert("t", [(1, at, 0.5, "a"), (2,)])
    with pytest.raises(TypeError, match="no frame, no dict of columns and no list"):
        db.insert("t", 7)


def test_objects_of_every_type_come_back(db):
    some = uuid.uuid4()
    columns = {
        "id": [1, 2],
        "b": [True, None],
        "i": [-(2**63), 2**63 - 1],
        "u": [2**64 - 1, 0],
        "f": [float("inf"), -0.5],
        "t": ["", "ä\x00"[:1]],
        "x": [b"\x00", b""],
        "d": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        "c": [datetime.time(0), datetime.time(23, 59, 59, 999999)],
        "n": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None],
        "z": [datetime.datetime(2026, 7, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), None],
        "m": [decimal.Decimal("-1.50"), decimal.Decimal("123.4")],
        "g": [some, None],
        "l": [[1, None, 3], []],
    }
    db.insert("t", columns, key="id", time=False, create=True)
    assert [column.type for column in db.schema("t")] == [
        "BIGINT", "BOOLEAN", "BIGINT", "BIGINT UNSIGNED", "DOUBLE PRECISION", "TEXT", "BYTEA", "DATE", "TIME",
        "TIMESTAMP(6)", "TIMESTAMPTZ(6)", "NUMERIC(5, 2)", "UUID", "BIGINT[]",
    ]  # fmt: skip
    expected = [tuple(column[place] for column in columns.values()) for place in range(2)]
    found = rows(db)
    assert found[0][10] == columns["z"][0] and found[0][10].tzinfo == UTC
    assert found == expected


def test_objects_without_a_common_type_are_refused(db):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
    with pytest.raises((TypeError, ValueError, fleetdb.Error)):
        db.insert("t", {"id": [1, 2], "v": ["a", 7]})
    with pytest.raises((TypeError, ValueError, fleetdb.Error)):
        db.insert("t", {"id": [1, 2], "v": [object(), object()]})
    with pytest.raises((TypeError, ValueError, fleetdb.Error)):
        db.insert("t", {"id": [1, 2], "v": ["a"]})
    assert rows(db) == []


def test_an_index_of_times_is_the_time(db):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            index = pandas.date_range("1969-12-31 22:00", periods=4, freq="h", tz=zone).as_unit(unit)
            frame = pandas.DataFrame({"meter": 7, "kwh": [0.5, float("nan"), 1.5, 2.5]}, index=index)
            table = f"t_{unit}_{(zone or 'none').replace('/', '_')}"
            db.insert(table, frame, time="at", key="meter", create=True)
            back = db.sql(f'SELECT * FROM "{table}" ORDER BY at').df()
            expected = index if zone is None else index.tz_convert("UTC")
            assert back["at"].dtype == expected.dtype, table
            assert list(back["at"]) == list(expected)
            assert back["kwh"].isna().tolist() == [False, True, False, False]
    named = pandas.DataFrame({"v": [1]}, index=pandas.Index([5], name="id"))
    db.insert("named", named, create=True)
    assert rows(db, "named") == [(5, 1)]
    unnamed = pandas.DataFrame({"id": [5], "v": [1]}, index=[17])
    db.insert("unnamed", unnamed, create=True)
    assert rows(db, "unnamed") == [(5, 1)]


def test_frames_of_pandas_have_their_types(db):
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    some = uuid.uuid4()
    frame = pandas.DataFrame(
        {
            "id": numpy.array([1, 2], "int32"),
            "small": numpy.array([1, 2], "uint8"),
            "kind": pandas.Categorical(["a", "b"]),
            "flag": pandas.array([True, None], "boolean"),
            "big": pandas.array([2**62 + 1, None], "Int64"),
            "text": pandas.array(["x", None], "string"),
            "amount": [decimal.Decimal("1.5"), decimal.Decimal("2.25")],
            "thing": [some, None],
            "day": [datetime.date(2026, 1, 1), None],
        }
    )
    db.insert("t", frame, key="id", create=True)
    assert rows(db) == [
        (1, 1, "a", True, 2**62 + 1, "x", decimal.Decimal("1.50"), some, datetime.date(2026, 1, 1)),
        (2, 2, "b", None, None, None, decimal.Decimal("2.25"), None, None),
    ]
    back = db.sql("SELECT * FROM t ORDER BY id").df()
    assert back["id"].dtype == "int32" and back["big"].dtype == "Int64" and back["flag"].dtype == "boolean"
    assert back["big"][0] == 2**62 + 1 and back["big"].isna()[1]
    assert str(db.sql("SELECT big FROM t").df(dtype_backend="pyarrow")["big"].dtype) == "int64[pyarrow]"


def test_arrays_of_numpy_and_series_are_columns(db):
    numpy, polars = pytest.importorskip("numpy"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    times = numpy.array(["1969-12-31T23:59:59.999999999", "NaT"], "M8[ns]")
    columns = {
        "id": numpy.arange(2, dtype=">i4"),
        "f": numpy.array([0.5, float("nan")], "f4"),
        "at": times,
        "day": numpy.array(["2026-01-01", "NaT"], "M8[D]"),
        "s": polars.Series(["a", None]),
        "a": pyarrow.array([1, None]),
        "b": numpy.array([True, False]),
        "o": numpy.array(["x", "y"], dtype=object),
    }
    db.insert("t", columns, key="id", time=False, create=True)
    found = rows(db)
    assert found[0] == (
        0, 0.5, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2026, 1, 1), "a", 1, True, "x",
    )  # fmt: skip
    assert found[1][1] != found[1][1], "NaN is a number, not NULL"
    assert found[1][2:] == (None, None, None, None, False, "y")
    with pytest.raises(ValueError, match="one dimension"):
        db.insert("t", {"id": numpy.zeros((2, 2))})


def test_times_of_numpy_in_lists_keep_their_unit(db):
    numpy = pytest.importorskip("numpy")
    for unit, kind in [("s", "TIMESTAMP(0)"), ("ms", "TIMESTAMP(3)"), ("us", "TIMESTAMP(6)"), ("ns", "TIMESTAMP")]:
        at = numpy.datetime64(1, unit)
        given = [{"id": number, "at": time} for number, time in enumerate([at, None, numpy.datetime64("NaT", "s")])]
        db.insert(f"t_{unit}", given, create=True, time=False)
        assert [column.type for column in db.schema(f"t_{unit}")] == ["BIGINT", kind]
        found = db.sql(f"SELECT at = $1::timestamp(9) FROM t_{unit} ORDER BY id", [at]).fetchall()
        assert found == [(True,), (None,), (None,)]
    pandas, day = pytest.importorskip("pandas"), datetime.datetime(2026, 1, 1)
    mixed = [day, numpy.datetime64("2026-01-01", "D"), pandas.NA]
    db.insert("mixed", {"id": [1, 2, 3], "at": mixed}, time=False, create=True)
    assert rows(db, "mixed") == [(1, day), (2, day), (3, None)]
    for value in (7, day.replace(tzinfo=UTC)):
        with pytest.raises(TypeError, match=f"a datetime64 and a value of type {type(value).__name__}"):
            db.insert("mixed", {"id": [1, 2], "at": [numpy.datetime64(1, "s"), value]})
    for length in (numpy.timedelta64(1, "ns"), [numpy.timedelta64(1, "ns")], [numpy.datetime64(1, "ns")]):
        with pytest.raises(TypeError, match="a value cannot be of type"):
            db.insert("lengths", {"id": [1], "v": [length]}, create=True)
    with pytest.raises(TypeError, match=r"NumPy's type timedelta64\[ns\]"):
        db.insert("lengths", {"id": [1], "v": numpy.array([1], "m8[ns]")}, create=True)


def test_wide_rows_are_written_in_smaller_batches(db):
    first = db.insert("t", {"id": [0], "v": ["x"]}, create=True)
    wide = {"id": list(range(80)), "v": ["x" * (1 << 20)] * 80}
    written = db.insert("t", wide)
    assert written.rows == 80 and written.sequence > first.sequence + 1
    assert db.sql("SELECT count(*), min(length(v)) FROM t").fetchone() == (80, 1 << 20)


def test_a_result_that_was_read_in_part_is_not_inserted(db):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    result = db.sql("SELECT * FROM generate_series(1, 10) AS g(id)")
    result.fetchone()
    with pytest.raises(fleetdb.InterfaceError, match="read already"):
        db.insert("t", result)


def test_a_frame_is_written_in_batches(db):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": range(2500), "v": range(2500)})
    assert db.insert("t", frame, create=True, batch_rows=1000).rows == 2500
    assert db.sql("SELECT count(*), sum(v) FROM t").fetchone() == (2500, sum(range(2500)))
    wrong = frame.with_columns(id=polars.when(polars.col("id") == 2000).then(None).otherwise(polars.col("id") + 10000))
    with pytest.raises(fleetdb.IntegrityError, match="^after 2000 rows, which are written: "):
        db.insert("t", wrong, batch_rows=1000)
    # The first two batches were written.
    assert db.table("t").count() == 4500


def test_an_error_of_the_rows_says_what_was_written_before(db):
    pyarrow = pytest.importorskip("pyarrow")
    schema = pyarrow.schema([("id", pyarrow.int64())])

    def breaking():
        for first in (0, 1000):
            yield pyarrow.record_batch([pyarrow.array(range(first, first + 1000))], schema=schema)
        raise ValueError("the sensor is gone")

    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(fleetdb.Error, match="^after 2000 rows, which are written: .*the sensor is gone"):
        db.insert("t", pyarrow.RecordBatchReader.from_batches(schema, breaking()), batch_rows=1000)
    assert db.table("t").count() == 2000


def test_lazy_frames_and_readers_are_read(db):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    db.insert("t", polars.LazyFrame({"id": [1, 2]}), create=True)
    table = pyarrow.table({"id": pyarrow.array([3, 4])})
    db.insert("t", table.to_reader())
    db.insert("t", table.to_batches()[0])
    db.insert("t", db.sql("SELECT id + 10 AS id FROM t"))
    assert [row[0] for row in rows(db)] == [1, 2, 3, 4, 11, 12, 13, 14]


def test_a_batch_is_written_as_a_whole(db):
    db.sql("CREATE TABLE a (id BIGINT PRIMARY KEY); CREATE TABLE b (id BIGINT PRIMARY KEY, v TEXT NOT NULL)")
    with db.batch() as batch:
        batch.insert("a", {"id": [1, 2]}).insert("b", [{"id": 1, "v": "x"}])
        assert rows(db, "a") == []
    assert batch.written.rows == 3 and batch.written.durability == "sync"
    assert (rows(db, "a"), rows(db, "b")) == ([(1,), (2,)], [(1, "x")])
    with pytest.raises(KeyError), db.batch() as batch:
        batch.insert("a", {"id": [3]})
        raise KeyError
    assert len(rows(db, "a")) == 2
    with db.batch() as empty:
        pass
    assert empty.written == (0, None, None)


def test_lines_are_written_and_wrong_ones_are_named(db):
    db.write_lines("cpu,host=a usage=1.5 1\ncpu,host=b usage=2 1", precision="s")
    db.write_lines(["cpu,host=c usage=3 1", "cpu,host=d usage=4 1\n"], precision="s", durability="os")
    assert [row[0] for row in rows(db, "cpu")] == ["a", "b", "c", "d"]
    with pytest.raises(fleetdb.LineError) as raised:
        db.write_lines(b"cpu,host=e usage=x 1\ncpu,host=f usage=5 1\nno", precision="s")
    assert (raised.value.written.rows, raised.value.dropped) == (1, 2)
    assert (raised.value.written.sequence > 0, raised.value.written.durability) == (True, "sync")
    assert [line[0] for line in raised.value.lines] == [1, 3]
    assert "invalid value 'x'" in raised.value.lines[0][1]
    assert [row[0] for row in rows(db, "cpu")][-1] == "f"
    with pytest.raises(fleetdb.Error, match="precision"):
        db.write_lines("cpu,host=a usage=1 1", precision="d")


def test_an_export_is_a_file_of_rows(db, tmp_path):
    polars = pytest.importorskip("polars")
    db.insert("t", {"id": [1, 2], "v": ["a", None]}, create=True)
    assert db.export("t", tmp_path / "t.parquet") == 2
    assert polars.read_parquet(tmp_path / "t.parquet").rows() == [(1, "a"), (2, None)]
    assert db.export("SELECT id FROM t WHERE id > 1", tmp_path / "t.csv") == 1
    assert (tmp_path / "t.csv").read_text().split() == ["id", "2"]
    with pytest.raises(fleetdb.InterfaceError, match="ends in .parquet or .csv"):
        db.export("t", tmp_path / "t.xlsx")


def test_an_export_is_of_a_table_a_view_or_a_query(db, tmp_path):
    db.insert("my table", {"id": [1, 2]}, create=True)
    db.sql('CREATE OR REPLACE VIEW "my view" AS SELECT id + 10 AS id FROM "my table"')
    for number, (source, lines) in enumerate(
        [
            ("my table", ["id", "1", "2"]),
            ("my view", ["id", "11", "12"]),
            ('SELECT id FROM "my table" WHERE id > 1 -- all others', ["id", "2"]),
            ('SELECT\nid\nFROM\n"my table"\nWHERE\nid=1;\n/* the end */', ["id", "1"]),
        ]
    ):
        assert db.export(source, tmp_path / f"{number}.csv") == len(lines) - 1
        assert (tmp_path / f"{number}.csv").read_text().split() == lines
    with pytest.raises(fleetdb.ProgrammingError) as raised:
        db.export("nothing", tmp_path / "nothing.csv")
    assert raised.value.code == "42P01"
    with pytest.raises(fleetdb.InterfaceError, match="a table or one query"):
        db.export("SELECT 1; SELECT 2", tmp_path / "two.csv")
    db.sql('DROP VIEW "my view"')


def test_a_list_that_contains_itself_is_refused(db):
    endless = []
    endless.append(endless)
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT[])")
    with pytest.raises(TypeError, match="more than 64 lists"):
        db.insert("t", {"id": [1], "a": [endless]})
