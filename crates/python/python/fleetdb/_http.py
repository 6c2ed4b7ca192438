"""A connection to a server over HTTP, with the standard library's client.

Statements go to `/api/v1/sql`, whose rows come as an Arrow IPC stream; rows of `insert` go to
`/api/v1/insert` as such streams, lines to `/write`. An answer that is being read has a TCP connection of its
own, which is used again once it was read.
"""

import base64
import copy
import http.client
import json
import os
import select
import socket
import threading
import weakref
from urllib.parse import quote, unquote, urlsplit

from ._connection import Connection, file_format
from ._errors import (
    CancelledError,
    ClosedError,
    Error,
    InterfaceError,
    LineError,
    OperationalError,
    ProgrammingError,
    RetryError,
    after,
    error_of,
)
from ._native import IpcBodies, read_ipc
from ._values import key_of, plain, quoted, statements
from ._written import Written

_ARROW = "application/vnd.apache.arrow.stream"
# Idle TCP connections that are kept.
_MAX_IDLE = 8


class HttpConnection(Connection):
    """A connection to a server."""

    def __init__(self, url, *, durability=None, token=None, timeout=None, progress=None):
        super().__init__(progress)
        parts = urlsplit(url)
        if parts.hostname is None or parts.path.strip("/") or parts.query:
            # Without user and password.
            shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
            raise InterfaceError(f"{shown} is no address of a server: write http://HOST:PORT")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._place = (
            parts.scheme == "https",
            parts.hostname,
            parts.port or (443 if parts.scheme == "https" else 8086),
        )
        self._timeout = timeout
        self._durability = durability
        self._headers = {}
        if token is not None:
            self._headers["Authorization"] = f"Token {token}"
        elif parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        # The end of an exchange that nobody has any more may come while the lock is held.
        self._lock = threading.RLock()
        self._idle = []
        self._busy = weakref.WeakSet()
        self._is_closed = False
        self._process = os.getpid()

    # Forks.

    def _is_forked(self):
        """Whether this process is a fork of the one that has the TCP connections.

        It is asked before each use of the lock, which a thread that the fork does not have may hold.
        """
        return self._process != os.getpid()

    def _check_process(self):
        if self._is_forked():
            message = f"the connection was opened in process {self._process}, and this is a fork of it"
            raise ClosedError(message, code="57P03", hint="Open a connection in this process.")

    # Requests.

    def _request(self, method, path, body=None, headers=None):
        """Sends a request; returns the exchange with its answer, whose status is 2xx."""
        exchange = self._connected()
        try:
            exchange.send(method, path, body, {**self._headers, **(headers or {})})
        except (OSError, http.client.HTTPException) as error:
            exchange.end(keep=False)
            if exchange.cancelled:
                raise _cancelled() from None
            raise OperationalError(f"could not reach {self.url}: {error}", code="08001") from error
        except BaseException:
            exchange.end(keep=False)
            raise
        if 200 <= exchange.status < 300:
            return exchange
        elsewhere = exchange.headers.get("Location")
        said = exchange.read_all()
        if exchange.status in (301, 302, 307, 308) and elsewhere:
            # A node of a cluster that stands by. The token is not for whoever the answer names.
            hint = f"Connect to {elsewhere.partition('://')[0]}://{urlsplit(elsewhere).netloc}."
            raise RetryError(f"{self.url} takes no writes, and sends them elsewhere", code="25006", hint=hint)
        raise _error(exchange.status, exchange.headers, said)

    def _connected(self):
        """An exchange with a TCP connection: one that is idle and not closed by the server, or a new one."""
        self._check_process()
        connection = None
        with self._lock:
            if self._is_closed:
                raise ClosedError("the connection is closed", code="57P03")
            while self._idle and connection is None:
                connection = self._idle.pop()
                if not _is_open(connection):
                    connection.close()
                    connection = None
        if connection is None:
            is_tls, host, port = self._place
            kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
            options = {} if self._timeout is None else {"timeout": self._timeout}
            connection = kind(host, port, **options)
        exchange = _Exchange(self, connection)
        with self._lock:
            self._busy.add(exchange)
        return exchange

    def _ended(self, exchange, connection):
        """An exchange has ended; its TCP connection may be used again."""
        if not self._is_forked():
            with self._lock:
                self._busy.discard(exchange)
                if connection is not None and not self._is_closed and len(self._idle) < _MAX_IDLE:
                    self._idle.append(connection)
                    return
        if connection is not None:
            connection.close()

    # SQL.

    def _run(self, text, values, progress):
        if not values:
            several = statements(text)
            for statement in several[:-1]:
                self._run_one(statement, [])
            # The text itself, so that positions of errors are those in it.
            text = text if len(several) < 2 else several[-1]
        return self._run_one(text, values)

    def _run_one(self, text, values):
        body = json.dumps({"sql": text, "parameters": [_in_json(value) for value in values]})
        headers = {"Content-Type": "application/json", "Accept": _ARROW}
        exchange = self._request("POST", "/api/v1/sql", body.encode(), headers)
        if exchange.content_type == _ARROW:
            return None, None, read_ipc(exchange), *_acknowledged_by(exchange.headers)
        answer = json.loads(exchange.read_all())
        return answer.get("result"), answer.get("warning"), None, *_acknowledged_by(exchange.headers)

    def _prepare(self, text):
        return None

    def _forget_prepared(self, number):
        pass

    # Rows in.

    def _level(self, durability):
        level = durability or self._durability
        return {} if level is None else {"X-FleetDB-Durability": level}

    def _insert(self, table, rows, durability, batch_rows, progress):
        count, last = 0, (None, None)
        bodies = IpcBodies(table, rows, batch_rows)
        while True:
            try:
                # Reading them may fail as well.
                body, _ = next(bodies, (None, 0))
                if body is None:
                    return count, *last
                written, *last = self._send_rows(body, durability)
            except Error as error:
                raise after(error, count)
            count += written
            if progress is not None:
                progress(count)

    def _commit(self, parts, durability):
        bodies = [body for table, rows in parts for body, _ in IpcBodies(table, rows)]
        return self._send_rows(b"".join(bodies), durability) if bodies else (0, None, None)

    def _send_rows(self, body, durability):
        headers = {"Content-Type": _ARROW, **self._level(durability)}
        answer = json.loads(self._request("POST", "/api/v1/insert", body, headers).read_all())
        return answer["rows"], answer["sequence"], answer["durability"]

    def _write_lines(self, lines, precision, durability):
        path = f"/write?db=fleetdb&precision={quote(precision)}"
        try:
            exchange = self._request("POST", path, lines, self._level(durability))
        except _LinesRefused as refused:
            answer = refused.answer
            written = Written(answer["kept"], *_acknowledged_by(refused.headers))
            wrong = [(line["line_number"], line["error_message"], line["original_line"]) for line in answer["data"]]
            raise LineError(answer["error"], written=written, dropped=answer["dropped"], lines=wrong) from None
        exchange.read_all()
        return _written_by(exchange.headers)

    # Containers.

    def _container(self, table, key):
        _, keys, time = self._columns(table)
        if len(key) != len(keys):
            raise ProgrammingError(
                f"the key has {len(key)} values, but table '{table}' has {len(keys)} key columns: {', '.join(keys)}",
                code="42000",
            )
        return _Container(table, keys, time, key)

    def _container_last(self, container):
        where, values = container.where(None, None)
        order = f" ORDER BY {quoted(container.time)} DESC" if container.time is not None else ""
        return self.sql(f"SELECT * FROM {quoted(container.table)} WHERE {where}{order} LIMIT 1", values)

    def _container_range(self, container, start, stop, columns):
        where, values = container.where(start, stop)
        names = "*" if columns is None else ", ".join(quoted(name) for name in columns)
        order = f" ORDER BY {quoted(container.time)}" if container.time is not None else ""
        return self.sql(f"SELECT {names} FROM {quoted(container.table)} WHERE {where}{order}", values)

    def _container_aggregate(self, container, column, start, stop):
        where, values = container.where(start, stop)
        name = quoted(column)
        totals = f"count({name}), min({name})::double precision, max({name})::double precision, sum({name})::double precision"
        return self.sql(f"SELECT {totals} FROM {quoted(container.table)} WHERE {where}", values).fetchall()[0]

    def _container_append(self, container, time, fields):
        names = [*container.keys, container.time, *fields]
        values = [*container.key, time, *(plain(value) for value in fields.values())]
        places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
        columns = ", ".join(quoted(name) for name in names)
        told = self._run(f"INSERT INTO {quoted(container.table)} ({columns}) VALUES ({places})", values, None)
        return Written(1, *told[3:])

    # The rest.

    def export(self, source, path):
        kind = file_format(path)
        result = self.sql(self._query_of(source))
        if kind == "parquet":
            import pyarrow.parquet

            table = result.arrow()
            pyarrow.parquet.write_table(table, os.fspath(path))
            return table.num_rows
        import csv

        with open(path, "x", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(result.columns)
            count = 0
            for count, row in enumerate(result, 1):
                writer.writerow(row)
        return count

    def backup(self, path):
        return json.loads(self._request("POST", f"/api/v1/backup?to={quote(os.fspath(path))}").read_all())

    def cancel(self):
        if self._is_forked():
            return
        with self._lock:
            busy = list(self._busy)
        for exchange in busy:
            exchange.cancel()

    def _is_in_transaction(self):
        # A request holds one statement, which is a transaction of its own.
        return False

    def cursor(self):
        self._check_process()
        other = copy.copy(self)
        other._lock, other._idle, other._busy = threading.RLock(), [], weakref.WeakSet()
        return other

    @property
    def closed(self):
        return self._is_closed

    def close(self):
        if self._is_forked():
            # What the other process uses stays open.
            self._is_closed = True
            return
        self.cancel()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __repr__(self):
        return f"<fleetdb.Connection {self.url}{' (closed)' if self.closed else ''}>"


class _Exchange:
    """A request and its answer, which is read as a file is."""

    def __init__(self, owner, connection):
        self._owner = owner
        self._connection = connection
        self._answer = None
        # Whether the server has not read the whole request.
        self._is_cut = False
        self.cancelled = False
        self.status = None
        self.headers = None

    def send(self, method, path, body, headers):
        try:
            self._connection.request(method, path, body, headers)
        except ConnectionError:
            if self._connection.sock is None:
                raise
            self._is_cut = True
            # A server that refuses a request may answer before it has read all of it, and hang up.
            try:
                self._answer = self._connection.getresponse()
            except (OSError, http.client.HTTPException):
                self._answer = None
            if self._answer is None:
                raise
        else:
            self._answer = self._connection.getresponse()
        self.status, self.headers = self._answer.status, self._answer.headers

    @property
    def content_type(self):
        return (self.headers.get("Content-Type") or "").partition(";")[0].strip()

    def read(self, size=-1):
        """The next bytes; none at the end."""
        if self._answer is None:
            return b""
        self._owner._check_process()
        try:
            # As soon as there are bytes, so that the first rows do not wait for others.
            data = self._answer.read() if size < 0 else self._answer.read1(size)
        except (http.client.HTTPException, OSError, ValueError) as error:
            cancelled = self.cancelled
            self.end(keep=False)
            if cancelled:
                raise _cancelled() from None
            message = (
                "the statement failed after its first rows, or the connection broke off: the server's log says why"
            )
            raise OperationalError(message, code="08006") from error
        except BaseException:
            # A read that is interrupted leaves the answer in an unknown state.
            self.end(keep=False)
            raise
        if size < 0 or (not data and size > 0) or self._answer.isclosed():
            self.end(keep=True)
        return data

    def read_all(self):
        return self.read(-1)

    def cancel(self):
        """Breaks the TCP connection off, which ends the statement on the server."""
        self.cancelled = True
        sock = getattr(self._connection, "sock", None)
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                # It is closed already.
                pass

    def end(self, keep):
        """The answer was read, or nobody reads it any more."""
        connection, self._connection, self._answer = self._connection, None, None
        if connection is None:
            return
        if not keep or self.cancelled or self._is_cut:
            connection.close()
            connection = None
        self._owner._ended(self, connection)

    def __del__(self):
        self.end(keep=False)


class _Container:
    """The names and values that a container's statements need."""

    def __init__(self, table, keys, time, key):
        self.table, self.keys, self.time, self.key = table, keys, time, key_of(tuple(key))

    def where(self, start, stop):
        """The condition for a range of times, and its values."""
        conditions, values = [], []
        for name, value in zip(self.keys, self.key):
            if value is None:
                conditions.append(f"{quoted(name)} IS NULL")
            else:
                values.append(value)
                conditions.append(f"{quoted(name)} = ${len(values)}")
        for bound, sign in ((start, ">="), (stop, "<")):
            if bound is not None:
                if self.time is None:
                    raise ProgrammingError(f"table '{self.table}' has no time column", code="42000")
                values.append(bound)
                conditions.append(f"{quoted(self.time)} {sign} ${len(values)}")
        return " AND ".join(conditions) or "true", values


class _LinesRefused(Exception):
    """Some lines were refused."""

    def __init__(self, answer, headers):
        super().__init__(answer["error"])
        self.answer = answer
        self.headers = headers


def _is_open(connection):
    """Whether the server has not closed an idle TCP connection."""
    if connection.sock is None:
        return False
    if hasattr(select, "poll"):
        # It takes descriptors of any number.
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return not poll.poll(0)
    return not select.select([connection.sock], [], [], 0)[0]


def _in_json(value):
    """A parameter as JSON has it: numbers that it lacks are texts."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def _cancelled():
    return CancelledError("the statement was cancelled", code="57014")


def _error(status, headers, body):
    """The exception for an answer."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {"message": body.decode(errors="replace").strip() or f"the server answered {status}"}
    if "dropped" in answer:
        return _LinesRefused(answer, headers)
    message, code = answer.get("message") or answer.get("error"), answer.get("code", "")
    if len(code) == 5 and code.upper() == code:
        return error_of(code, message, answer.get("hint"), answer.get("position"))
    if status in (401, 403):
        return OperationalError(message, code="28000", hint=answer.get("hint"))
    if status in (429, 503):
        return RetryError(message, code="53000")
    return OperationalError(message, code="58000" if status >= 500 else "08P01")


def _written_by(headers):
    """What the headers of an answer to lines say."""
    return Written(int(headers.get("X-FleetDB-Rows") or 0), *_acknowledged_by(headers))


def _acknowledged_by(headers):
    """The sequence and the durability in the headers of an answer."""
    sequence, level = headers.get("X-FleetDB-Sequence"), headers.get("X-FleetDB-Durability") or ""
    return int(sequence) if sequence else None, level.partition(" ")[0] or None
