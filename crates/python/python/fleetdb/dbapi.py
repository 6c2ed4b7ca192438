"""PEP 249 for FleetDB: `fleetdb.dbapi.connect("fleet.db")`, or with the address of a server.

Each statement takes effect at once, and `commit()` and `rollback()` have nothing to do, unless a
transaction was begun with `BEGIN`. A server over HTTP has no transactions of several statements.
"""

from . import connect as _connect
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

apilevel = "2.0"
# Threads may share the module and connections.
threadsafety = 2
paramstyle = "qmark"


class _Type(frozenset):
    """A type object of PEP 249: equal to the names of its SQL types."""

    __slots__ = ()

    def __eq__(self, other):
        if isinstance(other, str):
            return other.partition("(")[0].upper() in self
        return super().__eq__(other)

    def __ne__(self, other):
        return not self == other

    __hash__ = frozenset.__hash__


STRING = _Type({"TEXT", "UUID", "JSON", "JSONB"})
BINARY = _Type({"BYTEA"})
NUMBER = _Type(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "TINYINT UNSIGNED",
        "SMALLINT UNSIGNED",
        "INTEGER UNSIGNED",
        "BIGINT UNSIGNED",
        "REAL",
        "DOUBLE PRECISION",
        "NUMERIC",
    }
)
DATETIME = _Type({"TIMESTAMP", "TIMESTAMPTZ", "DATE", "TIME"})
ROWID = _Type()


def Date(year, month, day):
    """A date."""
    import datetime

    return datetime.date(year, month, day)


def Time(hour, minute, second):
    """A time of day."""
    import datetime

    return datetime.time(hour, minute, second)


def Timestamp(year, month, day, hour, minute, second):
    """A time without a zone."""
    import datetime

    return datetime.datetime(year, month, day, hour, minute, second)


def DateFromTicks(ticks):
    """The date of a time in seconds since 1970, in the zone of the machine."""
    import datetime

    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks):
    """The time of day of a time in seconds since 1970, in the zone of the machine."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks):
    """A time in seconds since 1970 without its zone, in the zone of the machine."""
    import datetime

    return datetime.datetime.fromtimestamp(ticks)


Binary = bytes


def connect(database=":memory:", **options):
    """Opens a database; the arguments are those of `fleetdb.connect`."""
    return Connection(_connect(database, **options))


class Connection:
    """A connection as PEP 249 has it. `native` is the `fleetdb.Connection`."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, native):
        self.native = native

    def cursor(self):
        """A new cursor."""
        self._check()
        return Cursor(self)

    def execute(self, operation, parameters=None):
        """Runs a statement with a new cursor, which is returned."""
        return self.cursor().execute(operation, parameters)

    def commit(self):
        """Commits the transaction that was begun with BEGIN, if there is one."""
        self._check()
        if self.native._is_in_transaction():
            self.native.sql("COMMIT")

    def rollback(self):
        """Rolls back the transaction that was begun with BEGIN, if there is one."""
        self._check()
        if self.native._is_in_transaction():
            self.native.sql("ROLLBACK")

    def _check(self):
        if self.native.closed:
            raise InterfaceError("the connection is closed")

    def close(self):
        """Closes the connection."""
        self.native.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if not self.native.closed:
            if kind is None:
                self.commit()
            else:
                self.rollback()
            self.close()


class Cursor:
    """A cursor as PEP 249 has it. It also gives its rows as Arrow."""

    def __init__(self, connection):
        self.connection = connection
        self.arraysize = 1
        self._result = None
        self._rowcount = -1
        self._is_closed = False

    @property
    def description(self):
        """The columns of the rows; None without rows."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self):
        """The number of rows that were written; -1 for a query, whose rows are computed as they are read."""
        return self._rowcount

    def execute(self, operation, parameters=None):
        """Runs a statement; returns this cursor."""
        self._check()
        self._drop()
        self._result = self.connection.native.sql(operation, parameters)
        self._rowcount = self._result.rowcount
        return self

    def executemany(self, operation, seq_of_parameters):
        """Runs a statement once for each row of parameters. `Connection.insert` is faster for many rows."""
        self._check()
        self._drop()
        prepared = self.connection.native.prepare(operation)
        self._rowcount = prepared.executemany(seq_of_parameters)
        return self

    def fetchone(self):
        """The next row; None at the end."""
        return self._rows().fetchone()

    def fetchmany(self, size=None):
        """The next rows, at most `size`, or `arraysize`."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self):
        """The rows that are left."""
        return self._rows().fetchall()

    def fetch_arrow_table(self):
        """The rows as a `pyarrow.Table`."""
        return self._rows().arrow()

    def fetch_record_batch(self):
        """The rows as a `pyarrow.RecordBatchReader`."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self._rows())

    def __arrow_c_stream__(self, requested_schema=None):
        return self._rows().__arrow_c_stream__(requested_schema)

    def setinputsizes(self, sizes):
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size, column=None):
        """Does nothing, as PEP 249 allows."""

    def close(self):
        """Ends the statement whose rows are left."""
        self._drop()
        self._is_closed = True

    def _drop(self):
        if self._result is not None:
            self._result.close()
        self._result = None
        self._rowcount = -1

    def _rows(self):
        self._check()
        if self._result is None or self._result.description is None:
            raise ProgrammingError("there are no rows: run a query first")
        return self._result

    def _check(self):
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        self.connection._check()

    def __iter__(self):
        return iter(self._rows())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
