"""What only connections over HTTP have: addresses, tokens, and connections that break off."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import fleetdb
import pytest
import servers
from conftest import NO_SERVER
from forks import in_fork, refusals

pytestmark = pytest.mark.skipif(servers.command() is None, reason=NO_SERVER)
LONG = "SELECT count(*) FROM generate_series(1, 100000000000) AS g(n)"


def test_another_thread_cancels_a_query(server):
    with fleetdb.connect(server.url) as db:
        threading.Timer(0.5, db.cancel).start()
        begun = time.perf_counter()
        with pytest.raises(fleetdb.CancelledError) as raised:
            db.sql(LONG).fetchall()
        assert raised.value.code == "57014"
        assert time.perf_counter() - begun < 2
        assert db.sql("SELECT 7").fetchone() == (7,)


def test_ctrl_c_ends_a_query(server):
    program = """
import os, signal, sys, threading, time
import fleetdb
db = fleetdb.connect(sys.argv[1], progress=False)
def interrupt():
    time.sleep(1)
    global begun
    begun = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    db.sql(sys.argv[2]).fetchall()
except KeyboardInterrupt:
    print(time.perf_counter() - begun)
print(db.sql("SELECT 7").fetchone())
"""
    path = os.path.join(os.path.dirname(__file__), "..", "python")
    run = subprocess.run(
        [sys.executable, "-c", program, server.url, LONG],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60,
    )  # fmt: skip
    seconds, row = run.stdout.splitlines()
    assert float(seconds) < 0.2, run.stderr
    assert row == "(7,)"


def test_results_are_read_side_by_side(server):
    with fleetdb.connect(server.url) as db:
        first, second = (db.sql("SELECT * FROM generate_series(1, 20000) AS g(n)") for _ in range(2))
        for number in range(1, 20001):
            assert first.fetchone() == second.fetchone() == (number,)
        for _ in range(50):
            db.sql("SELECT * FROM generate_series(1, 20000) AS g(n)").fetchone()
        assert db.sql("SELECT 7").fetchone() == (7,)


def test_queries_that_are_read_to_their_end_share_a_tcp_connection(server, monkeypatch):
    connects = []
    connect = http.client.HTTPConnection.connect
    monkeypatch.setattr(http.client.HTTPConnection, "connect", lambda self: connects.append(1) or connect(self))
    with fleetdb.connect(server.url) as db:
        for _ in range(5):
            assert len(db.sql("SELECT * FROM generate_series(1, 20000) AS g(n)").fetchall()) == 20000
            assert db.sql("SELECT 1 WHERE false").fetchall() == []
            db.tables()
    assert connects == [1]


def test_threads_share_a_connection(server):
    with fleetdb.connect(server.url) as db:
        errors = []

        def work(number):
            try:
                for _ in range(30):
                    assert db.sql("SELECT $1::bigint", [number]).fetchall() == [(number,)]
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []


def test_a_token_is_sent(tmp_path):
    data = str(tmp_path / "data")
    server = servers.Server(data=data)
    try:
        add = [servers.command(), "token", "add", "agent", "--role", "write", "--data", data]
        token = subprocess.run(add, capture_output=True, text=True, check=True).stdout.split()[-1]
        with pytest.raises(fleetdb.OperationalError) as raised:
            fleetdb.connect(server.url).tables()
        assert raised.value.code == "28000"
        with fleetdb.connect(server.url, token=token) as db:
            db.write_lines("cpu,host=a usage=1 1")
            db.insert("cpu", [{"host": "b", "time": __import__("datetime").datetime(2026, 1, 1), "usage": 2.0}])
            assert db.table("cpu").count() == 2
            with pytest.raises(fleetdb.ProgrammingError) as raised:
                db.sql("DROP TABLE cpu")
            assert raised.value.code == "42501"
    finally:
        server.stop()


def test_a_server_that_is_started_again_is_reached_again(tmp_path):
    server = servers.Server(data=str(tmp_path / "data"))
    db = fleetdb.connect(server.url)
    assert db.tables() == []
    server.kill()
    with pytest.raises(fleetdb.OperationalError):
        db.tables()
    server.stop()


def test_a_server_has_no_frames_of_this_process(server):
    with fleetdb.connect(server.url) as db, pytest.raises(fleetdb.NotSupportedError):
        db.register("t", {"id": [1]})


def test_the_durability_of_a_write_is_asked_for(server):
    with fleetdb.connect(server.url, durability="os") as db:
        for table in db.tables():
            db.sql(f'DROP TABLE "{table}"')
        assert db.insert("t", {"id": [1]}, create=True).durability == "os"
        assert db.insert("t", {"id": [2]}, durability="sync").durability == "sync"
        assert db.write_lines("cpu,host=a usage=1 1").durability == "os"
        with pytest.raises(fleetdb.Error):
            db.write_lines("cpu,host=a usage=1 1", durability="never")


def test_a_backup_is_made_by_the_server(tmp_path):
    server = servers.Server("--files", str(tmp_path))
    try:
        with fleetdb.connect(server.url) as db:
            db.write_lines("cpu,host=a usage=1 1")
            assert db.backup(tmp_path / "backup")["segments"] == 1
            assert (tmp_path / "backup" / "manifest").is_dir()
            with pytest.raises(fleetdb.Error):
                db.backup("/somewhere/else")
    finally:
        server.stop()


def test_signals_stay_as_they_were():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_results_that_are_not_read_to_their_end_leave_no_connection(server):
    with fleetdb.connect(server.url) as db:
        for _ in range(20):
            assert db.sql("SELECT 1 AS one").fetchone() == (1,)
        assert len(db._busy) == 0
        other = db.cursor()
        other.close()
        assert db.sql("SELECT 1 AS one").fetchall() == [(1,)]


def test_a_node_that_stands_by_is_an_error_that_names_the_owner():
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class StandsBy(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", f"http://db2.example.com:8086{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), StandsBy) as standby:
        threading.Thread(target=standby.serve_forever, daemon=True).start()
        db = fleetdb.connect(f"http://127.0.0.1:{standby.server_port}")
        with pytest.raises(fleetdb.RetryError) as failed:
            db.write_lines("cpu,host=a usage=1 1")
        assert "db2.example.com:8086" in failed.value.hint
        standby.shutdown()


def test_an_answer_before_the_end_of_a_request_is_read():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                body = b'{"message": "that is too much", "code": "54000"}'
                connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        thread = threading.Thread(target=refuse)
        thread.start()
        with fleetdb.connect(f"http://127.0.0.1:{listener.getsockname()[1]}") as db:
            with pytest.raises(fleetdb.OperationalError, match="that is too much") as failed:
                db.write_lines(b"x" * (32 << 20))
            assert failed.value.code == "54000"
            assert db._idle == [], "the connection has half a request"
        thread.join()


def test_a_batch_that_is_too_large_for_the_server_says_so():
    server = servers.Server("--max-body-bytes", "1MiB")
    try:
        with fleetdb.connect(server.url) as db:
            db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
            with pytest.raises(fleetdb.OperationalError, match="max_body_bytes"), db.batch() as batch:
                batch.insert("t", {"id": list(range(20)), "v": ["x" * (1 << 20)] * 20})
            assert db.table("t").count() == 0
    finally:
        server.stop()


def test_descriptors_of_any_number_are_used(server):
    fcntl, resource = pytest.importorskip("fcntl"), pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    try:
        with fleetdb.connect(server.url) as db:
            db.write_lines("cpu,host=a usage=1 1")
            (connection,) = db._idle
            with connection.sock as low:
                connection.sock = socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD, 1024))
            db.write_lines("cpu,host=a usage=1 1")
            assert db._idle == [connection]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_gets_an_error_and_harms_nothing(server):
    with fleetdb.connect(server.url) as db:
        result = db.sql("SELECT * FROM generate_series(1, 20000) AS g(n)")
        first = result.fetchone()
        is_held, may_go = threading.Event(), threading.Event()

        def hold():
            with db._lock:
                is_held.set()
                may_go.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        is_held.wait()

        def child():
            nonlocal result
            said = refusals(lambda: db.sql("SELECT 1"), result._stream.next_rows, db.cursor)
            db.cancel()
            result = None
            db.close()
            return said

        said = in_fork(child)
        may_go.set()
        thread.join()
        assert said == ["57P03 True"] * 3
        assert [first, *result.fetchall()] == [(number,) for number in range(1, 20001)]
        assert db.sql("SELECT 7").fetchall() == [(7,)]


def test_a_wrong_address_does_not_show_the_password():
    with pytest.raises(fleetdb.InterfaceError) as failed:
        fleetdb.connect("http://joe:secret@127.0.0.1:8086/db")
    assert "secret" not in str(failed.value)


def test_a_compressed_stream_is_refused(server):
    pyarrow = pytest.importorskip("pyarrow")
    import urllib.error
    import urllib.request

    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({"id": [0] * 10_000})
    with pyarrow.ipc.new_stream(sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"{server.url}/api/v1/insert?table=t", sink.getvalue().to_pybytes())
    assert b"compressed" in failed.value.read()
