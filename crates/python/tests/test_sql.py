"""Statements, parameters, results and errors, of both kinds of connections."""

import datetime
import decimal
import uuid

import fleetdb
import pytest

UTC = datetime.timezone.utc


@pytest.fixture
def reads(db):
    db.sql("CREATE TABLE reads (meter BIGINT, ts TIMESTAMPTZ, kwh DOUBLE, PRIMARY KEY (meter, ts))")
    db.sql("INSERT INTO reads VALUES (7, '2026-01-01', 0.5), (7, '2026-01-02', 1.5), (8, '2026-01-01', NULL)")
    return db


def test_a_statement_without_rows_says_what_it_did(db):
    created = db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    assert (created.tag, created.rowcount, repr(created)) == ("CREATE TABLE", -1, "CREATE TABLE")
    written = db.sql("INSERT INTO t VALUES (1), (2)")
    assert (written.tag, written.rowcount) == ("INSERT 0 2", 2)
    assert (written.columns, written.description) == ([], None)
    with pytest.raises(fleetdb.InterfaceError, match="gave no rows"):
        written.fetchall()


def test_a_statement_that_commits_says_where_and_how_durable(reads):
    first = reads.sql("INSERT INTO reads VALUES (7, '2026-01-03', 2.5)")
    assert (first.durability, first.sequence > 0) == ("sync", True)
    next_one = first.sequence + 1
    returned = reads.sql("UPDATE reads SET kwh = $1 WHERE meter = 8 RETURNING kwh", [0.25])
    assert (returned.sequence, returned.durability, returned.fetchall()) == (next_one, "sync", [(0.25,)])
    # In one batch, as it is a query's rows.
    copied = reads.sql("INSERT INTO reads SELECT meter + 10, ts, kwh FROM reads")
    assert (copied.sequence, copied.rowcount) == (next_one + 1, 4)
    assert reads.sql("DELETE FROM reads WHERE meter = 17").sequence == next_one + 2
    for nothing in ("SELECT 1", "UPDATE reads SET kwh = 1 WHERE meter = 9", "CREATE VIEW v AS SELECT 1 AS n"):
        done = reads.sql(nothing)
        assert (done.sequence, done.durability) == (None, None)
    reads.sql("DROP VIEW v")
    prepared = reads.prepare("UPDATE reads SET kwh = ? WHERE meter = ?")
    assert prepared(1.0, 8).sequence == next_one + 3


def test_a_transaction_says_it_when_it_commits(embedded):
    embedded.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    begun = embedded.sql("BEGIN")
    written = embedded.sql("INSERT INTO t VALUES (1)")
    assert (begun.sequence, written.sequence, written.durability) == (None, None, None)
    committed = embedded.sql("COMMIT")
    assert (committed.tag, committed.sequence, committed.durability) == ("COMMIT", 1, "sync")
    embedded.sql("BEGIN")
    assert embedded.sql("COMMIT").sequence is None
    embedded.sql("SET durability = 'os'")
    assert embedded.sql("INSERT INTO t VALUES (2)").durability == "os"


def test_rows_come_as_tuples_and_dicts(reads):
    query = "SELECT * FROM reads ORDER BY meter, ts"
    first = (7, datetime.datetime(2026, 1, 1, tzinfo=UTC), 0.5)
    result = reads.sql(query)
    assert result.columns == ["meter", "ts", "kwh"]
    assert result.types == ["BIGINT", "TIMESTAMPTZ", "DOUBLE PRECISION"]
    assert result.fetchone() == first
    assert [row[2] for row in result.fetchmany(5)] == [1.5, None]
    assert (result.fetchone(), result.fetchmany(3), result.fetchall()) == (None, [], [])
    assert reads.sql(query).fetchall()[0] == first
    assert [row[0] for row in reads.sql(query)] == [7, 7, 8]
    assert reads.sql(query).to_dicts()[2] == {"meter": 8, "ts": first[1], "kwh": None}


def test_rows_are_read_once(reads):
    result = reads.sql("SELECT * FROM reads")
    assert repr(result).count("\n") == 8, "looking at rows does not take them"
    assert len(result.df()) == 3
    for again in (result.df, result.arrow, result.pl):
        with pytest.raises(fleetdb.InterfaceError, match="read already") as raised:
            again()
        assert "run the statement again" in raised.value.hint
    begun = reads.sql("SELECT * FROM reads")
    begun.fetchone()
    with pytest.raises(fleetdb.InterfaceError, match="read already"):
        begun.arrow()
    assert len(begun.fetchall()) == 2


def test_a_result_is_shown_as_a_table(reads):
    result = reads.sql("SELECT meter, kwh, 'a\nb' AS text FROM reads ORDER BY meter, ts")
    assert str(result).splitlines() == [
        "┌────────┬──────────────────┬──────┐",
        "│ meter  │       kwh        │ text │",
        "│ bigint │ double precision │ text │",
        "├────────┼──────────────────┼──────┤",
        "│      7 │              0.5 │ a\\nb │",
        "│      7 │              1.5 │ a\\nb │",
        "│      8 │             NULL │ a\\nb │",
        "└────────┴──────────────────┴──────┘",
        "3 rows, 3 columns",
    ]
    html = reads.sql("SELECT '<b>' AS \"a&b\"")._repr_html_()
    assert "&lt;b&gt;" in html and "a&amp;b" in html and "<b>" not in html
    many = reads.sql("SELECT * FROM generate_series(1, 100000) AS g(n)")
    assert repr(many).endswith("more than 40 rows, 1 column")
    assert many.fetchone() == (1,)


def test_other_libraries_take_a_result(reads):
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    query = "SELECT meter, kwh FROM reads ORDER BY meter, ts"
    assert polars.DataFrame(reads.sql(query)).equals(reads.sql(query).pl())
    assert pyarrow.table(reads.sql(query)).equals(reads.sql(query).arrow())
    result = reads.sql(query)
    assert duckdb.sql("SELECT sum(kwh) FROM result").fetchall() == [(2.0,)]
    batches = list(reads.sql(query).batches())
    assert sum(pyarrow.record_batch(batch).num_rows for batch in batches) == 3
    assert isinstance(reads.sql(query).df(), pandas.DataFrame)


def test_parameters_are_values(reads):
    day = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=3)))
    for text, parameters in [
        ("SELECT kwh FROM reads WHERE meter = $1 AND ts = $2", [7, day]),
        ("SELECT kwh FROM reads WHERE meter = ? AND ts = ?", (7, "2026-01-02")),
        ("SELECT kwh FROM reads WHERE ts = $at AND meter = $meter AND $meter > 1", {"meter": 7, "at": day}),
    ]:
        assert reads.sql(text, parameters).fetchall() == [(1.5,)], text
    assert reads.sql("SELECT '?', $1 -- ?\n", ["a'b\"c\\d"]).fetchone() == ("?", "a'b\"c\\d")
    values = [None, True, 2**62, 1.5, "x", b"\x00\xff", datetime.date(1969, 12, 31), decimal.Decimal("1.50")]
    casts = "boolean, boolean, bigint, double precision, text, bytea, date, numeric(5,2)".split(", ")
    text = "SELECT " + ", ".join(f"${place}::{cast}" for place, cast in enumerate(casts, 1))
    assert reads.sql(text, values).fetchone() == tuple(values)
    some = uuid.uuid4()
    text = "SELECT $1::uuid, $2::time, $3::bigint[], $4::text[], $5::double precision"
    values = [some, datetime.time(1, 2, 3, 4), [1, None, 3], ["a b", "", 'q"', None, "null"], float("inf")]
    assert reads.sql(text, values).fetchone() == tuple(values)
    numpy = pytest.importorskip("numpy")
    values = [numpy.array(7, "i4"), numpy.datetime64("2026-01-02T00:00:00", "ns")]
    assert reads.sql("SELECT kwh FROM reads WHERE meter = ? AND ts = ?", values).fetchall() == [(1.5,)]
    with pytest.raises(TypeError, match="of type object"):
        reads.sql("SELECT $1", [object()])
    with pytest.raises(fleetdb.Error, match=r"2 parameters, not 1"):
        reads.sql("SELECT $1, $2", [1])
    with pytest.raises(fleetdb.Error, match=r"no parameter \$b"):
        reads.sql("SELECT $a, $b", {"a": 1})


def test_columns_of_one_name_are_told_apart(db):
    query = "SELECT 1 AS n, 2 AS n, 3 AS n_1"
    columns = ["n", "n_2", "n_1"]
    assert db.sql(query).columns == columns
    assert db.sql(query).to_dicts() == [dict(zip(columns, (1, 2, 3)))]
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    assert db.sql(query).arrow().to_pylist() == [dict(zip(columns, (1, 2, 3)))]
    assert db.sql(query).pl().equals(polars.DataFrame(dict(zip(columns, (1, 2, 3)))))
    assert db.sql(query).df().equals(pandas.DataFrame([(1, 2, 3)], columns=columns))


def test_times_of_numpy_are_parameters(db):
    numpy = pytest.importorskip("numpy")
    for text, value in [
        ("2026", "2026-01-01 00:00:00"),
        ("2026-03-04T05", "2026-03-04 05:00:00"),
        ("2026-03-04T05:06:07.123456789", "2026-03-04 05:06:07.123456789"),
        ("1970-01-02T05:06:07.123456789123", "1970-01-02 05:06:07.123456789"),
    ]:
        query = f"SELECT $1::timestamp(9) = '{value}'::timestamp(9)"
        assert db.sql(query, [numpy.datetime64(text)]).fetchone() == (True,)
    for count, unit, value in [(-3, "ns", "-3 nanoseconds"), (5, "ms", "5 milliseconds"), (2, "Y", "2 years")]:
        query = f"SELECT $1::interval = '{value}'::interval"
        assert db.sql(query, [numpy.timedelta64(count, unit)]).fetchone() == (True,)
    for nothing, kind in [(numpy.datetime64("NaT", "s"), "timestamp"), (numpy.timedelta64("NaT", "s"), "interval")]:
        assert db.sql(f"SELECT $1::{kind}", [nothing]).fetchone() == (None,)
    with pytest.raises(TypeError, match="in the unit ps"):
        db.sql("SELECT $1::interval", [numpy.timedelta64(1, "ps")])


def test_a_time_of_day_with_a_zone_is_refused(db):
    with pytest.raises(TypeError, match="has a zone"):
        db.sql("SELECT $1::time", [datetime.time(1, 2, tzinfo=UTC)])
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, c TIME)")
    with pytest.raises(TypeError, match="column 'c', row 1: .*has a zone"):
        db.insert("t", [{"id": 1, "c": datetime.time(1, 2, tzinfo=UTC)}])


def test_a_text_may_have_several_statements(db):
    last = db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1);\n-- ; no end\nSELECT ';', * FROM t;"
    )
    assert last.fetchall() == [(";", 1)]
    with pytest.raises(fleetdb.ProgrammingError):
        db.sql("INSERT INTO t VALUES (2); SELECT nope; INSERT INTO t VALUES (3)")
    assert db.sql("SELECT max(id) FROM t").fetchone() == (2,)


def test_a_prepared_statement_runs_again_and_again(reads):
    total = reads.prepare("SELECT sum(kwh) FROM reads WHERE meter = ? AND ts >= ?")
    assert total(7, "2026-01-01").fetchone() == (2.0,)
    assert total(7, datetime.date(2026, 1, 2)).fetchone() == (1.5,)
    assert total(9, "2026-01-01").fetchone() == (None,)
    insert = reads.prepare("INSERT INTO reads VALUES ($1, $2, $3)")
    assert insert(9, "2026-01-01", 4).rowcount == 1
    assert insert.executemany([(10, "2026-01-01", 1), (10, "2026-01-02", 2)]) == 2
    assert total(10, "2026-01-01").fetchone() == (3.0,)


def test_an_error_says_its_code_and_its_place(reads):
    with pytest.raises(fleetdb.ProgrammingError) as raised:
        reads.sql("SELECT kwh,\n  nope FROM reads")
    error = raised.value
    assert (error.code, error.position, error.kind) == ("42703", 15, "input")
    assert str(error).splitlines()[1:3] == ["LINE 2:   nope FROM reads", "          ^"]
    assert error.hint == "The columns are: reads.meter, reads.ts, reads.kwh."
    for text, kind, code in [
        ("SELEC 1", fleetdb.ProgrammingError, "42601"),
        ("SELECT * FROM nope", fleetdb.ProgrammingError, "42P01"),
        ("SELECT 1/0", fleetdb.DataError, "22012"),
        ("SELECT 'x'::bigint", fleetdb.DataError, "22P02"),
        ("INSERT INTO reads VALUES (NULL, NULL, 1)", fleetdb.IntegrityError, "23502"),
        ("CREATE INDEX i ON reads (kwh)", fleetdb.NotSupportedError, "0A000"),
    ]:
        with pytest.raises(kind) as raised:
            reads.sql(text).fetchall()
        assert raised.value.code == code, text
        assert isinstance(raised.value, fleetdb.DatabaseError)


def test_a_failure_in_the_middle_of_the_rows_is_no_end(db):
    text = "SELECT 10 / (50000 - n) FROM generate_series(1, 100000) AS g(n)"
    for read in ("fetchall", "arrow", "pl", "df"):
        with pytest.raises(fleetdb.Error):
            getattr(db.sql(text), read)()
    result = db.sql(text)
    assert result.fetchone() == (0,)
    with pytest.raises(fleetdb.Error):
        result.fetchall()
    with pytest.raises(fleetdb.Error):
        result.fetchall()


def test_a_result_tells_its_plan(reads):
    result = reads.sql("SELECT sum(kwh) FROM reads WHERE meter = 7")
    assert "reads" in result.explain()
    assert "metrics" in result.explain(analyze=True)
    assert "reads" in reads.sql("SELECT sum(kwh) FROM reads WHERE meter = $1", [7]).explain()


def test_every_type_has_its_form_in_python(db):
    text = """
        SELECT true, 1::tinyint, -2::smallint, 3::integer, 4::bigint, 1.5::real, 'NaN'::double precision,
               '-12.340'::numeric(10, 3), 'é', '\\x00ff'::bytea, '1969-07-20'::date, '23:59:59.999999'::time,
               '1969-07-20 20:17:40.5'::timestamp(3), '2026-07-01 00:00:00.123456789+02'::timestamptz,
               '00000000-0000-0000-0000-000000000001'::uuid, ARRAY[1, NULL, 3]::bigint[], NULL
    """
    row = db.sql(text).fetchone()
    nan = row[6]
    assert nan != nan
    assert row[:6] + row[7:] == (
        True, 1, -2, 3, 4, 1.5,
        decimal.Decimal("-12.340"), "é", b"\x00\xff", datetime.date(1969, 7, 20),
        datetime.time(23, 59, 59, 999999), datetime.datetime(1969, 7, 20, 20, 17, 40, 500000),
        datetime.datetime(2026, 6, 30, 22, 0, 0, 123456, tzinfo=UTC), uuid.UUID(int=1), [1, None, 3], None,
    )  # fmt: skip


def test_the_tables_are_known(reads):
    assert reads.tables() == ["reads"]
    assert reads.schema("reads") == [
        fleetdb.Column("meter", "BIGINT", "key", False),
        fleetdb.Column("ts", "TIMESTAMPTZ", "time", False),
        fleetdb.Column("kwh", "DOUBLE PRECISION", "field", True),
    ]
    with pytest.raises(fleetdb.ProgrammingError) as raised:
        reads.schema("nope")
    assert raised.value.code == "42P01"
    assert reads.table("reads").count() == 3
    assert isinstance(reads.status()["segments"], int)


def test_a_closed_connection_says_so(db):
    db.close()
    db.close()
    assert db.closed
    with pytest.raises(fleetdb.ClosedError, match="connection is closed"):
        db.sql("SELECT 1")


def test_an_address_or_an_option_that_is_wrong_is_refused():
    with pytest.raises(fleetdb.InterfaceError, match="are for servers"):
        fleetdb.connect(":memory:", token="x")
    with pytest.raises(fleetdb.InterfaceError, match="options of the server"):
        fleetdb.connect("http://127.0.0.1:1", read_only=True)
    with pytest.raises(fleetdb.InterfaceError, match="no address"):
        fleetdb.connect("http://127.0.0.1:1/path")
    with pytest.raises(fleetdb.OperationalError, match="could not reach"):
        fleetdb.connect("http://127.0.0.1:1").tables()


def test_only_one_statement_has_a_plan(db):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(fleetdb.InterfaceError):
        db.sql("SELECT 1; SELECT 2").explain()
