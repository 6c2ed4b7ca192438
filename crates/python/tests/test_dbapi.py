"""PEP 249, and the libraries that use it."""

import datetime

import pytest

from fleetdb import dbapi


@pytest.fixture(params=["embedded", "http"])
def connection(request):
    if request.param == "embedded":
        connection = dbapi.connect(":memory:")
    else:
        connection = dbapi.connect(request.getfixturevalue("server").url)
        connection.execute("DROP TABLE IF EXISTS things")
    connection.execute("CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT, at TIMESTAMP(6), v DOUBLE)")
    yield connection
    connection.close()


def filled(connection):
    cursor = connection.cursor()
    rows = [(number, f"thing {number}", datetime.datetime(2026, 1, 1), number / 2) for number in range(5)]
    cursor.executemany("INSERT INTO things VALUES (?, ?, ?, ?)", rows)
    assert cursor.rowcount == 5
    return rows


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.IntegrityError, dbapi.DatabaseError) and issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error) and issubclass(dbapi.Warning, Exception)
    assert dbapi.Date(2026, 1, 2) == datetime.date(2026, 1, 2)
    assert dbapi.Timestamp(2026, 1, 2, 3, 4, 5) == datetime.datetime(2026, 1, 2, 3, 4, 5)
    assert dbapi.Binary(b"x") == b"x"


def test_a_cursor_gives_rows(connection):
    rows = filled(connection)
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    assert cursor.execute("SELECT * FROM things WHERE id >= ? ORDER BY id", [1]) is cursor
    assert [column[0] for column in cursor.description] == ["id", "name", "at", "v"]
    kinds = [column[1] for column in cursor.description]
    assert kinds[0] == dbapi.NUMBER and kinds[1] == dbapi.STRING and kinds[2] == dbapi.DATETIME
    assert kinds[0] != dbapi.STRING
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.fetchone() == rows[1]
    assert cursor.fetchmany() == [rows[2]]
    cursor.arraysize = 2
    assert cursor.fetchmany() == rows[3:5]
    assert (cursor.fetchone(), cursor.fetchall()) == (None, [])
    assert list(cursor.execute("SELECT id FROM things ORDER BY id LIMIT 2")) == [(0,), (1,)]
    cursor.execute("DELETE FROM things WHERE id = ?", (0,))
    assert (cursor.rowcount, cursor.description) == (1, None)
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchone()
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT nope FROM things")
    with pytest.raises(dbapi.IntegrityError):
        cursor.execute("INSERT INTO things VALUES (NULL)")


def test_what_is_closed_says_so(connection):
    cursor = connection.cursor()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    other = connection.cursor()
    connection.close()
    for use in (connection.cursor, connection.commit, lambda: other.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()


def test_a_transaction_that_was_begun_ends(connection):
    connection.commit()
    connection.rollback()
    if "Http" in type(connection.native).__name__:
        return
    connection.execute("BEGIN")
    connection.execute("INSERT INTO things (id) VALUES (1)")
    connection.rollback()
    connection.execute("BEGIN")
    connection.execute("INSERT INTO things (id) VALUES (2)")
    connection.commit()
    assert connection.execute("SELECT id FROM things").fetchall() == [(2,)]


def test_rows_come_as_arrow(connection):
    pyarrow = pytest.importorskip("pyarrow")
    filled(connection)
    cursor = connection.execute("SELECT id, v FROM things ORDER BY id")
    table = cursor.fetch_arrow_table()
    assert table.column("v").to_pylist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    reader = connection.execute("SELECT id FROM things").fetch_record_batch()
    assert isinstance(reader, pyarrow.RecordBatchReader) and reader.read_all().num_rows == 5


def test_pandas_reads_sql(connection):
    pandas = pytest.importorskip("pandas")
    filled(connection)
    with pytest.warns(UserWarning):
        frame = pandas.read_sql("SELECT id, v, at FROM things WHERE id < ? ORDER BY id", connection, params=[2])
    assert frame["v"].tolist() == [0.0, 0.5]
    assert frame["at"][0] == pandas.Timestamp("2026-01-01")


def test_polars_reads_a_database(connection):
    polars = pytest.importorskip("polars")
    filled(connection)
    frame = polars.read_database("SELECT id, name, at, v FROM things ORDER BY id", connection)
    assert frame["v"].to_list() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert frame.schema["at"] == polars.Datetime("us") and frame.schema["id"] == polars.Int64
    cursor = connection.cursor()
    few = polars.read_database("SELECT id FROM things WHERE id > ?", cursor, execute_options={"parameters": [2]})
    assert sorted(few["id"]) == [3, 4]


def test_a_transaction_of_several_statements_is_committed(embedded):
    connection = dbapi.Connection(embedded)
    connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    connection.execute("BEGIN; INSERT INTO t VALUES (1)")
    connection.commit()
    connection.execute("BEGIN; INSERT INTO t VALUES (2)")
    connection.rollback()
    assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
