"""A database that is open in this process."""

import atexit
import os
import weakref

from ._connection import Connection, definition, file_format
from ._errors import LineError
from ._frames import arrow_of
from ._native import Connection as Native
from ._native import stream
from ._result import Result
from ._values import plain, size_of
from ._written import Written

# Connections to close when the interpreter ends, so that what was written at "interval" and "os" is durable.
_open: "weakref.WeakSet[EmbeddedConnection]" = weakref.WeakSet()


@atexit.register
def _close_all():
    for connection in list(_open):
        connection.close()


class EmbeddedConnection(Connection):
    """A connection to a database that is open in this process."""

    def __init__(self, native, progress=None):
        super().__init__(progress)
        self._native = native
        _open.add(self)

    @classmethod
    def open(cls, path, *, memory_limit=None, durability=None, read_only=False, progress=None):
        """Opens a database; see `fleetdb.connect`."""
        path = None if path is None else os.fspath(path)
        return cls(Native.open(path, size_of(memory_limit), durability, read_only), progress)

    @property
    def path(self):
        """The directory of the database; None in memory."""
        return self._native.path

    @property
    def read_only(self):
        """Whether the database was opened to read it."""
        return self._native.read_only

    def _run(self, text, values, progress):
        return self._native.sql(text, values, progress)

    def _prepare(self, text):
        from ._values import numbered

        if "?" in text:
            text = numbered(text, ())[0]
        return self._native.prepare(text)

    def _run_prepared(self, number, text, values, progress):
        return self._native.run_prepared(number, text, values, progress)

    def _forget_prepared(self, number):
        self._native.forget_prepared(number)

    def _insert(self, table, rows, durability, batch_rows, progress):
        return self._native.insert(table, rows, durability, batch_rows, progress)

    def _commit(self, parts, durability):
        return self._native.commit(parts, durability)

    def _write_lines(self, lines, precision, durability):
        written, dropped, wrong = self._native.write_lines(lines, precision, durability)
        written = Written(*written)
        if dropped:
            number, reason, text = wrong[0]
            message = f"line {number}, {reason}: '{text}' ({written.rows} lines kept, {dropped} dropped)"
            raise LineError(message, written=written, dropped=dropped, lines=wrong)
        return written

    def register(self, name, rows):
        rows, _ = arrow_of(rows)
        rows = stream(rows)
        columns = definition(name, rows)
        self.unregister(name)
        self._run(f"CREATE TEMPORARY TABLE {columns}", [], None)
        self._native.fill_temporary(name, rows)

    def last(self, table):
        return Result(stream=self._native.last(table))

    def _container(self, table, key):
        return self._native.container(table, key)

    def _container_last(self, container):
        return Result(stream=container.last())

    def _container_range(self, container, start, stop, columns):
        return Result(stream=container.range(start, stop, columns))

    def _container_aggregate(self, container, column, start, stop):
        return container.aggregate(column, start, stop)

    def _container_append(self, container, time, fields):
        values = [(name, plain(value)) for name, value in fields.items()]
        return Written(1, *container.append(time, values))

    def export(self, source, path):
        file_format(path)
        target = os.fspath(path).replace("'", "''")
        # On its own line, so that a comment at its end does not hide what follows.
        return self.sql(f"COPY ({self._query_of(source)}\n) TO '{target}'").rowcount

    def backup(self, path):
        return self._native.backup(os.fspath(path))

    def _is_in_transaction(self):
        return self._native.in_transaction()

    def cancel(self):
        self._native.cancel()

    def cursor(self):
        return type(self)(self._native.cursor(), self._shows_progress)

    @property
    def closed(self):
        return self._native.closed

    def close(self):
        _open.discard(self)
        self._native.close()

    def __repr__(self):
        place = self.path if self.path is not None else ":memory:"
        return f"<fleetdb.Connection {place}{' (closed)' if self.closed else ''}>"
