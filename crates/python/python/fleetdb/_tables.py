"""Tables and containers of a connection."""

from typing import NamedTuple

from ._values import key_of, time_text


class Column(NamedTuple):
    """A column of a table.

    name     -- its name
    type     -- its type as CREATE TABLE takes it, as in "TIMESTAMPTZ(3)"
    role     -- "key" if it is part of the primary key before the time, "time", or "field"
    nullable -- whether it may be NULL
    """

    name: str
    type: str
    role: str
    nullable: bool


class Aggregate(NamedTuple):
    """The totals of a column: the number of values that are not NULL, and None without any."""

    count: int
    min: "float | None"
    max: "float | None"
    sum: "float | None"

    @property
    def avg(self):
        """The mean; None if there are no values."""
        return None if self.sum is None else self.sum / self.count


class Table:
    """A table. `table[key]` is a container of it."""

    def __init__(self, connection, name):
        self._connection = connection
        self.name = name

    def __getitem__(self, key):
        return Container(self._connection, self.name, key_of(key))

    def schema(self):
        """The columns."""
        return self._connection.schema(self.name)

    def count(self):
        """The number of rows."""
        return self._connection._count(self.name)

    def last(self):
        """The newest row of every container, as a result."""
        return self._connection.last(self.name)

    def insert(self, rows, **options):
        """Writes rows; see `Connection.insert`."""
        return self._connection.insert(self.name, rows, **options)

    def __repr__(self):
        columns = ", ".join(f"{column.name} {column.type}" for column in self.schema())
        return f"<fleetdb.Table {self.name}: {columns}>"


class Container:
    """All rows of a table that share a key: the series of one device.

    `container[start:stop]` are its rows from `start` on and before `stop`. Times are datetimes, or texts as
    SQL takes them.
    """

    def __init__(self, connection, table, key):
        self._connection = connection
        self.table = table
        self.key = tuple(key)
        # What the connection keeps for it.
        self._handle = connection._container(table, key)

    def last(self):
        """The newest row as a dict; None if there are no rows."""
        rows = self._connection._container_last(self._handle).to_dicts()
        return rows[0] if rows else None

    def __getitem__(self, times):
        if not isinstance(times, slice) or times.step is not None:
            raise TypeError("a container takes a slice of times: container[start:stop]")
        return self.range(times.start, times.stop)

    def range(self, start=None, stop=None, columns=None):
        """The rows from `start` on and before `stop` in time order, as a result."""
        columns = [columns] if isinstance(columns, str) else columns
        return self._connection._container_range(self._handle, time_text(start), time_text(stop), columns)

    def aggregate(self, column, start=None, stop=None):
        """Count, minimum, maximum and sum of a column from `start` on and before `stop`."""
        totals = self._connection._container_aggregate(self._handle, column, time_text(start), time_text(stop))
        return Aggregate(*totals)

    def append(self, time, fields=None, /, **named):
        """Writes a row at a time; a row that is there is replaced. Fields that are not named are NULL."""
        fields = {**(fields or {}), **named}
        return self._connection._container_append(self._handle, time_text(time), fields)

    def __repr__(self):
        key = ", ".join(repr(value) for value in self.key)
        return f"<fleetdb.Container {self.table}[{key}]>"
