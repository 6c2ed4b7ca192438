"""A server for tests: the command `fleetdb serve` on a directory that is removed at the end."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def command():
    """The program `fleetdb`: FLEETDB_COMMAND, or the one on the path; None if there is none."""
    return os.environ.get("FLEETDB_COMMAND") or shutil.which("fleetdb")


class Server:
    """A running server."""

    def __init__(self, *options, data=None):
        self._made = None if data else tempfile.mkdtemp(prefix="fleetdb-test-")
        self.data = data or self._made
        self._log = tempfile.TemporaryFile("w+")
        arguments = ["serve", "--data", self.data, "--http", "127.0.0.1:0", "--postgres", "off", *options]
        self._process = subprocess.Popen([command(), *arguments], stderr=self._log, stdout=self._log)
        self.url = f"http://{self._address()}"
        self._stand_in = None
        # Whether the program is older than `/api/v1/insert`.
        self.is_old = False
        if not _has_insert(self.url):
            self._stand_in, self.is_old = _StandIn(self.url), True
            self.url = self._stand_in.url

    def _address(self):
        for _ in range(300):
            self._log.seek(0)
            found = re.search(r"127\.0\.0\.1:(\d+)", self._log.read())
            if found:
                return found[0]
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self._log.seek(0)
        raise RuntimeError(f"the server does not start: {self._log.read()}")

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self):
        if self._stand_in is not None:
            self._stand_in.stop()
        self._process.terminate()
        self._process.wait()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def _has_insert(url):
    try:
        urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/insert?table=t", data=b"", method="POST"))
    except urllib.error.HTTPError as error:
        return error.code != 404
    return True


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes is no error."""


class _StandIn:
    """Passes requests on to a server that lacks `/api/v1/insert`, and does these as SQL."""

    def __init__(self, url):
        self._server = _Quiet(("127.0.0.1", 0), _handler_of(url))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self._server.server_address[1]

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


def _handler_of(url):
    import http.client
    import io
    import json

    import pyarrow as pa

    place = url.removeprefix("http://")

    def ask(method, path, headers, body):
        connection = http.client.HTTPConnection(place)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def literal(value, kind):
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, float):
            return f"'{value!r}'::{'real' if str(kind) == 'float' else 'double precision'}".replace("inf", "Infinity")
        if isinstance(value, int):
            return str(value)
        if isinstance(value, bytes):
            return "'\\x" + value.hex() + "'"
        if isinstance(value, list):
            return "'{" + ",".join("NULL" if e is None else json.dumps(e) for e in value) + "}'"
        return "'" + str(value).replace("'", "''") + "'"

    def times(array):
        """Timestamps as texts with all digits."""
        if not pa.types.is_timestamp(array.type):
            if isinstance(array, pa.ExtensionArray):
                return [None if value is None else str(value) for value in array.to_pylist()]
            return array.to_pylist()
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
        import numpy

        def text(value):
            seconds, rest = divmod(value, per_second)
            begin = str(numpy.datetime64(seconds, "s"))
            return f"{begin}.{rest * 10**9 // per_second:09}" + ("+00:00" if array.type.tz else "")

        values = array.cast(pa.timestamp(array.type.unit)).cast(pa.int64()).to_pylist()
        return [None if value is None else text(value) for value in values]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.path.startswith("/api/v1/insert"):
                return self.pass_on("POST", body)
            source, count = io.BytesIO(body), 0
            while source.tell() < len(body):
                reader = pa.ipc.open_stream(source)
                table = reader.schema.metadata[b"fleetdb.table"].decode().replace('"', '""')
                for batch in reader:
                    names = ", ".join('"' + name.replace('"', '""') + '"' for name in batch.schema.names)
                    columns = [(times(column), field.type) for column, field in zip(batch.columns, batch.schema)]
                    rows = [
                        "(" + ", ".join(literal(values[row], kind) for values, kind in columns) + ")"
                        for row in range(batch.num_rows)
                    ]
                    for begin in range(0, len(rows), 1000):
                        text = f'INSERT INTO "{table}" ({names}) VALUES {", ".join(rows[begin : begin + 1000])}'
                        answer = ask("POST", "/api/v1/sql", dict(self.auth()), text.encode())
                        said = answer.read()
                        if answer.status != 200:
                            return self.answer(answer.status, said)
                    count += batch.num_rows
            level = self.headers.get("X-FleetDB-Durability") or "sync"
            said = {"rows": count, "sequence": 1 if count else None, "durability": level if count else None}
            self.answer(200, json.dumps(said).encode())

        def do_GET(self):
            self.pass_on("GET", None)

        def auth(self):
            return [(name, value) for name, value in self.headers.items() if name == "Authorization"]

        def pass_on(self, method, body):
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            answer = ask(method, self.path, headers, body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() in ("content-type", "x-fleetdb-durability", "x-fleetdb-rows", "x-fleetdb-sequence"):
                    self.send_header(name, value)
            if answer.status == 204:
                return self.end_headers()
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while data := answer.read1(1 << 16):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except (OSError, http.client.HTTPException):
                self.close_connection = True
                answer.close()

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
