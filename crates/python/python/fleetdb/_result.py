"""The result of a statement. Its rows are computed as they are read, and read once."""

from collections import deque

from . import _show
from ._errors import InterfaceError


class Result:
    """Rows, a command tag, or both.

    `df()`, `pl()`, `arrow()`, `batches()` and Arrow's C stream interface, with which other libraries take a
    result, read all rows. `fetchone()`, `fetchmany()`, `fetchall()` and iteration read them one after the
    other, as PEP 249 has it. Rows are read once: keep what was read, or run the statement again.

    tag        -- the command tag, as in "INSERT 0 5"; None for a query
    warning    -- what one should know although the statement succeeded; None if there is nothing
    sequence   -- the place of what was committed in the order of all batches; None if nothing was
    durability -- the level that it reached: "shared", "sync", "interval" or "os"; None if nothing was committed
    """

    def __init__(
        self, tag=None, warning=None, stream=None, sequence=None, durability=None, *, explain=None, progress=None
    ):
        self.tag = tag
        self.warning = warning
        self.sequence = sequence
        self.durability = durability
        self._stream = stream
        self._explain = explain
        self._progress = progress
        # Rows as tuples that were taken from the stream, but not given yet.
        self._ahead = deque()
        self._is_begun = False
        self._is_ended = stream is None

    # What is known without reading.

    @property
    def columns(self):
        """The names of the columns."""
        return [] if self._stream is None else self._stream.names()

    @property
    def types(self):
        """The SQL types of the columns."""
        return [] if self._stream is None else self._stream.types()

    @property
    def description(self):
        """The columns as PEP 249 describes them; None without rows."""
        if self._stream is None:
            return None
        return [(name, kind, None, None, None, None, None) for name, kind in zip(self.columns, self.types)]

    @property
    def rowcount(self):
        """The number of rows that the statement wrote; -1 for a query."""
        count = (self.tag or "").rpartition(" ")[2]
        return int(count) if count.isdigit() else -1

    # All rows at once.

    def arrow(self):
        """The rows as a `pyarrow.Table`."""
        import pyarrow

        return self._all(pyarrow.table)

    def pl(self):
        """The rows as a `polars.DataFrame`."""
        import polars

        return self._all(polars.DataFrame)

    def df(self, dtype_backend=None):
        """The rows as a `pandas.DataFrame`.

        Integers and booleans with NULLs have pandas' nullable types, so that no digit is lost. With
        `dtype_backend="pyarrow"` all columns have Arrow's types.
        """
        from ._pandas import frame_of

        return frame_of(self, dtype_backend)

    def batches(self):
        """The rows as Arrow batches, one after the other: each has Arrow's C array interface."""
        return iter(self._take().next_batch, None)

    def to_dicts(self):
        """The rows as a list of dicts."""
        names = self.columns
        return [dict(zip(names, row)) for row in self.fetchall()]

    def __arrow_c_stream__(self, requested_schema=None):
        return self._take().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self):
        return self._unread().__arrow_c_schema__()

    def _all(self, build):
        """What a library builds of all rows."""
        stream = self._take()
        try:
            return build(stream)
        except BaseException:
            # The library only knows a text of it.
            stream.check()
            raise
        finally:
            self._close_progress()

    def _unread(self):
        if self._stream is None:
            raise InterfaceError(f"the statement gave no rows: {self.tag}")
        if self._is_begun:
            raise InterfaceError("the rows were read already", hint="Keep what was read, or run the statement again.")
        return self._stream

    def _take(self):
        """The stream of the rows, for someone who reads all of them."""
        stream = self._unread()
        self._is_begun = True
        return stream

    # Row by row.

    def fetchone(self):
        """The next row as a tuple; None at the end."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size=1):
        """The next rows, at most `size`, as a list of tuples."""
        while len(self._ahead) < size and self._read():
            pass
        return [self._ahead.popleft() for _ in range(min(size, len(self._ahead)))]

    def fetchall(self):
        """The rows that are left, as a list of tuples."""
        while self._read():
            pass
        rows = list(self._ahead)
        self._ahead.clear()
        return rows

    def __iter__(self):
        return iter(self.fetchone, None)

    def _read(self):
        """Reads some rows; False at the end."""
        if self._stream is None:
            raise InterfaceError(f"the statement gave no rows: {self.tag}")
        if self._is_ended:
            return False
        self._is_begun = True
        rows = self._stream.next_rows()
        if rows is None:
            self._is_ended = True
            self._close_progress()
            return False
        self._ahead.extend(rows)
        return True

    # For people.

    def explain(self, analyze=False):
        """The plan of the statement, as EXPLAIN shows it. With `analyze` it runs again, and is measured."""
        if self._explain is None:
            raise InterfaceError("this result has no plan")
        return self._explain("EXPLAIN ANALYZE " if analyze else "EXPLAIN ")

    def show(self):
        """Prints the first rows."""
        print(self)

    def __repr__(self):
        if self._stream is None:
            return self.tag or ""
        if self._is_begun:
            return f"<fleetdb.Result: {', '.join(self.columns)}; its rows are being read, or were>"
        rows, has_more = self._stream.peek(_show.size())
        self._close_progress()
        return _show.table(self.columns, self.types, rows, has_more)

    def _repr_html_(self):
        if self._stream is None or self._is_begun:
            return None
        rows, has_more = self._stream.peek(_show.size())
        self._close_progress()
        return _show.html(self.columns, self.types, rows, has_more)

    # Its end.

    def close(self):
        """Forgets the rows that were not read, and ends their statement."""
        if self._stream is not None:
            self._stream.close()
        self._is_begun = self._is_ended = True
        self._ahead.clear()
        self._close_progress()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _close_progress(self):
        if self._progress is not None:
            self._progress.close()
