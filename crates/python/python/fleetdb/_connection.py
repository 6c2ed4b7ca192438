"""What connections have in common, in this process and over HTTP."""

import os
import re

from ._errors import Error, InterfaceError, NotSupportedError, ProgrammingError
from ._frames import arrow_of
from ._progress import Progress, is_wanted
from ._result import Result
from ._tables import Column, Table
from ._values import numbered, quoted, statements
from ._written import Written

# The rows of an atomic batch of `insert`.
_BATCH_ROWS = 100_000

_TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY table_name
"""
_KEY = """
SELECT column_name FROM information_schema.key_column_usage
WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position
"""
_NULLABLE = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = 'public' AND table_name = $1 AND is_nullable = 'YES'
"""

_IS_TABLE = """
SELECT 1 FROM information_schema.tables WHERE table_schema IN ('public', 'pg_temp') AND table_name = $1
"""


class Connection:
    """An open database. Its methods are the same in this process and over HTTP."""

    def __init__(self, progress=None):
        self._shows_progress = is_wanted(progress)

    # What the two kinds of connections do.

    def _run(self, text, values, progress):
        """Tag, warning, stream, sequence and durability of a statement."""
        raise NotImplementedError

    def _insert(self, table, rows, durability, batch_rows, progress):
        raise NotImplementedError

    def _commit(self, parts, durability):
        raise NotImplementedError

    def _write_lines(self, lines, precision, durability):
        raise NotImplementedError

    # SQL.

    def sql(self, text, parameters=None):
        """Runs the statements of a text, and returns the `Result` of the last one.

        Parameters are `$1`, `$2`, ... or `?` with a sequence, and `$name` with a mapping. They are for a text
        of one statement. A query computes its rows as they are read; other statements are complete, and
        durable, when this returns.
        """
        values = []
        if parameters is not None and len(parameters):
            text, values = numbered(text, parameters)
        return self._result(text, lambda progress: self._run(text, values, progress), values)

    execute = sql

    def _result(self, text, run, values=()):
        progress = Progress("running") if self._shows_progress else None
        try:
            told = run(progress)
        except Error as error:
            error.statement = text
            raise
        finally:
            if progress is not None:
                progress.close()

        def explain(words):
            if len(statements(text)) != 1:
                raise InterfaceError("a text of several statements has no plan")
            rows = self._run(words + text, list(values), None)[2]
            return "\n".join(str(row[-1]) for row in Result(stream=rows).fetchall())

        return Result(*told, explain=explain, progress=progress)

    def prepare(self, text):
        """Prepares a statement, which is then called with its parameters: `prepared(7, "2026-01-01")`."""
        return Prepared(self, text)

    # Rows in.

    def insert(
        self,
        table,
        rows,
        *,
        time=None,
        key=None,
        create=False,
        durability=None,
        batch_rows=_BATCH_ROWS,
    ):
        """Writes rows to a table, and returns what was `Written`.

        `rows` is a frame of pandas or polars, anything else with Arrow's C stream or C array interface, a
        dict of columns, or a list of rows. Columns are found by name; a column that the rows lack is NULL. A
        row replaces an older one with the same primary key.

        time       -- the time column of a table that is created, and the name of a DatetimeIndex; by default
                      the first timestamp. False creates a collection, whose key has no time
        key        -- the columns that tell the devices of a table that is created apart; by default the
                      first that may be one
        create     -- creates the table if it does not exist, with the columns of the rows
        durability -- when the rows are acknowledged; by default as the database says
        batch_rows -- the most rows in a batch, which is written as a whole or not at all. Wide rows come in
                      smaller ones
        """
        if isinstance(rows, list) and not rows:
            self._names(table)
            return Written(0, None, None)
        rows, count = arrow_of(rows, time=time, names=lambda: self._names(table))
        if create:
            rows = self._create(table, rows, time, key)
        progress = Progress(f"inserting into {table}", count) if self._shows_progress else None
        try:
            return Written(*self._insert(table, rows, durability, batch_rows, progress))
        finally:
            if progress is not None:
                progress.close()

    def _names(self, table):
        names = [column.name for column in self.schema(table)]
        if not names:
            raise ProgrammingError(f"rows without names need a table: '{table}' does not exist", code="42P01")
        return names

    def _create(self, table, rows, time, key):
        """Creates the table of these rows if it does not exist."""
        from ._native import stream

        rows = stream(rows)
        if table in self.tables():
            return rows
        names, types = rows.names(), rows.types()
        if time is None:
            time = next((name for name, kind in zip(names, types) if kind.startswith("TIMESTAMP")), None)
        if key is None:
            key = [name for name, kind in zip(names, types) if name != time and _may_be_key(kind)][:1]
        keys = [*([key] if isinstance(key, str) else key), *([time] if time else [])]
        for name in keys:
            if name not in names:
                raise ProgrammingError(f"the rows have no column '{name}'; their columns are {', '.join(names)}")
        self._run(f"CREATE TABLE IF NOT EXISTS {definition(table, rows, keys)}", [], None)
        return rows

    def batch(self, durability=None):
        """A context that gathers the rows of several tables, and writes them as one batch when it ends."""
        return Batch(self, durability)

    def write_lines(self, lines, *, precision="ns", durability=None):
        """Writes lines of InfluxDB's line protocol: a text, bytes, or a list of lines.

        Tables and columns that are missing are created. Wrong lines are left out; a `LineError` then says
        which, and what was written.
        """
        if not isinstance(lines, (str, bytes, bytearray)):
            lines = "\n".join(line.rstrip("\n") for line in lines)
        if isinstance(lines, str):
            lines = lines.encode()
        return self._write_lines(bytes(lines), precision, durability)

    def register(self, name, rows):
        """Makes rows a temporary table of this connection, in place of an earlier one with its name."""
        raise NotSupportedError(
            "a server cannot see the rows of this process", code="0A000", hint="Insert them into a table."
        )

    def unregister(self, name):
        """Forgets a registered table."""
        self.sql(f"DROP TABLE IF EXISTS pg_temp.{quoted(name)}")

    # Rows out.

    def table(self, name):
        """A table, whose containers are `table[key]`."""
        return Table(self, name)

    def last(self, table):
        """The newest row of every container of a table, as a result."""
        _, keys, time = self._columns(table)
        if time is None:
            return self.sql(f"SELECT * FROM {quoted(table)}")
        order = ", ".join(quoted(name) for name in keys)
        if not keys:
            return self.sql(f"SELECT * FROM {quoted(table)} ORDER BY {quoted(time)} DESC LIMIT 1")
        return self.sql(f"SELECT DISTINCT ON ({order}) * FROM {quoted(table)} ORDER BY {order}, {quoted(time)} DESC")

    def export(self, source, path):
        """Writes the rows of a table, a view or a query to a file, .parquet or .csv; returns their number."""
        raise NotImplementedError

    def _query_of(self, source):
        """The query for `export`: the given one, or all rows of the table or the view of this name."""
        # A lone word is no query.
        if re.fullmatch(r"\w+", source) or self._rows(_IS_TABLE, [source]):
            return f"SELECT * FROM {quoted(source)}"
        found = statements(source)
        if len(found) != 1:
            raise InterfaceError(f"export takes a table or one query, not {len(found)} statements")
        return found[0]

    # About the database.

    def tables(self):
        """The names of the tables."""
        return [name for (name,) in self._rows(_TABLES)]

    def schema(self, table):
        """The columns of a table."""
        columns, keys, time = self._columns(table)
        nullable = {name for (name,) in self._rows(_NULLABLE, [table])}

        def role(name):
            return "time" if name == time else "key" if name in keys else "field"

        return [Column(name, kind, role(name), name in nullable) for name, kind in columns]

    def _columns(self, table):
        """The names and types of a table's columns, its key before the time, and its time column or None."""
        result = Result(stream=self._run(f"SELECT * FROM {quoted(table)} LIMIT 0", [], None)[2])
        columns = list(zip(result.columns, result.types))
        # Until its end, which has no rows.
        result.fetchall()
        keys = [name for (name,) in self._rows(_KEY, [table])]
        is_time = bool(keys) and dict(columns)[keys[-1]].startswith("TIMESTAMP")
        return columns, keys[:-1] if is_time else keys, keys[-1] if is_time else None

    def _rows(self, text, values=()):
        return Result(stream=self._run(text, list(values), None)[2]).fetchall()

    def _count(self, table):
        return self._rows(f"SELECT count(*) FROM {quoted(table)}")[0][0]

    def status(self):
        """What the database is doing, and has done since it was opened, by name."""
        return {name: _number(value) for name, value in self._rows("SELECT name, value FROM system.status")}

    def backup(self, path):
        """Backs the database up to a directory, which is empty or holds an older backup of it."""
        raise NotImplementedError

    def cancel(self):
        """Cancels the statement that another thread runs on this connection."""
        raise NotImplementedError

    def cursor(self):
        """Another connection to the same database, for another thread."""
        raise NotImplementedError

    @property
    def closed(self):
        """Whether the connection is closed."""
        raise NotImplementedError

    def close(self):
        """Closes the connection. Closing it again does nothing."""
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Prepared:
    """A prepared statement. Calling it with the values of its parameters runs it."""

    def __init__(self, connection, text):
        self._connection = connection
        self._text = text
        self._number = connection._prepare(text)

    def __call__(self, *parameters):
        text, values = numbered(self._text, parameters)
        connection, number = self._connection, self._number
        if number is None:
            return connection._result(text, lambda progress: connection._run(text, values, progress), values)
        return connection._result(
            text, lambda progress: connection._run_prepared(number, text, values, progress), values
        )

    def executemany(self, rows):
        """Runs the statement once for each row of parameters; returns the number of rows written."""
        return sum(max(self(*row).rowcount, 0) for row in rows)

    def __repr__(self):
        return f"<fleetdb.Prepared: {self._text}>"

    def __del__(self):
        if getattr(self, "_number", None) is not None:
            self._connection._forget_prepared(self._number)


class Batch:
    """Rows of several tables that are written as one batch: as a whole or not at all.

    written -- what was written, once the context has ended
    """

    def __init__(self, connection, durability=None):
        self._connection = connection
        self._durability = durability
        self._parts = []
        self.written = None

    def insert(self, table, rows, *, time=None):
        """Adds rows for a table; see `Connection.insert`."""
        if self.written is not None:
            raise InterfaceError("the batch was written already")
        rows, _ = arrow_of(rows, time=time, names=lambda: self._connection._names(table))
        self._parts.append((table, rows))
        return self

    def commit(self):
        """Writes the rows; returns what was `Written`."""
        if self.written is None:
            self.written = Written(*self._connection._commit(self._parts, self._durability))
            self._parts = []
        return self.written

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.commit()


def _may_be_key(kind):
    """Whether a column of this type may tell devices apart."""
    others = ("TIMESTAMP", "DOUBLE", "REAL", "BOOLEAN", "NUMERIC")
    return not kind.startswith(others) and not kind.endswith("[]")


def definition(table, rows, keys=()):
    """The name and the columns of a table for these rows, as CREATE TABLE takes them."""
    names = rows.names()
    unknown = [name for name, kind in zip(names, rows.types()) if kind == "Null"]
    if unknown:
        raise ProgrammingError(
            f"column '{unknown[0]}' has no value, so its type is unknown",
            hint="Create the table with SQL first, or leave the column out.",
        )
    types = rows.sql_types()
    columns = [f"{quoted(name)} {kind}{' NOT NULL' if name in keys else ''}" for name, kind in zip(names, types)]
    key = f", PRIMARY KEY ({', '.join(quoted(name) for name in keys)})" if keys else ""
    return f"{quoted(table)} ({', '.join(columns)}{key})"


def _number(value):
    """A value of the status as an integer or a boolean, if it is one."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value is not None and value.isdigit() else value


def file_format(path):
    """The format of a file by its name."""
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in (".parquet", ".csv"):
        raise InterfaceError(f"{os.fspath(path)}: the name of the file ends in .parquet or .csv")
    return ending[1:]
