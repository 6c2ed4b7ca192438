"""FleetDB: a time-series database for sensor fleets, in this process or over HTTP.

    import fleetdb

    with fleetdb.connect("fleet.db") as db:
        db.insert("reads", frame, time="ts", key=["meter"], create=True)
        print(db.sql("SELECT meter, sum(kwh) FROM reads GROUP BY meter"))

Importing this module needs neither NumPy, pandas, polars nor pyarrow, and loads nothing of them.
"""

from ._errors import (
    CancelledError,
    ClosedError,
    DamagedError,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    LineError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    RetryError,
    Warning,
)

__all__ = [
    "Aggregate",
    "Batch",
    "CancelledError",
    "ClosedError",
    "Column",
    "Connection",
    "Container",
    "DamagedError",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "LineError",
    "NotSupportedError",
    "OperationalError",
    "Prepared",
    "ProgrammingError",
    "Result",
    "RetryError",
    "Table",
    "Warning",
    "Written",
    "__version__",
    "connect",
]

# Where the names are that are loaded when they are used.
_LATER = {
    "Aggregate": "_tables",
    "Batch": "_connection",
    "Column": "_tables",
    "Connection": "_connection",
    "Container": "_tables",
    "Prepared": "_connection",
    "Result": "_result",
    "Table": "_tables",
    "Written": "_written",
    "dbapi": "dbapi",
}


def connect(
    database=":memory:",
    *,
    memory_limit=None,
    durability=None,
    read_only=False,
    token=None,
    timeout=None,
    progress=None,
):
    """Opens a database and returns a `Connection`, which is a context manager.

    `database` is a directory, which is created if it does not exist, ":memory:" for a database that lasts
    as long as its connections, or the address of a server, as in "http://127.0.0.1:8086".

    memory_limit -- bytes for everything that grows with the data, or a text as in "512MiB"
    durability   -- when a write is acknowledged: "sync" (the default), "interval" or "os"
    read_only    -- reads a database that another process may be writing
    token        -- the token for a server, as `fleetdb token add` prints it
    timeout      -- seconds that a server may take for the next bytes of an answer
    progress     -- whether long statements show their progress on standard error; by default they do on a
                    terminal and in a notebook
    """
    text = database if isinstance(database, str) else None
    if text is not None and text.startswith(("http://", "https://")):
        from ._http import HttpConnection

        if memory_limit is not None or read_only:
            raise InterfaceError("memory_limit and read_only are options of the server")
        return HttpConnection(text, durability=durability, token=token, timeout=timeout, progress=progress)
    if token is not None or timeout is not None:
        raise InterfaceError("token and timeout are for servers: give an address as in http://127.0.0.1:8086")
    from ._embedded import EmbeddedConnection

    path = None if text == ":memory:" else database
    return EmbeddedConnection.open(
        path, memory_limit=memory_limit, durability=durability, read_only=read_only, progress=progress
    )


def __getattr__(name):
    if name == "__version__":
        from ._native import __version__

        return __version__
    if name in _LATER:
        from importlib import import_module

        module = import_module(f"{__name__}.{_LATER[name]}")
        return module if name == _LATER[name] else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_LATER, "__version__"])
