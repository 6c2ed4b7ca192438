"""What only a database in this process has: locks, forks, Ctrl-C, threads, crashes and memory."""

import datetime
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import fleetdb
import pytest
from forks import in_fork, refusals

SOURCE = str(Path(__file__).parent.parent / "python")
LONG = "SELECT count(*) FROM generate_series(1, 100000000000) AS g(n)"


def start(program, *arguments):
    """Starts a Python program in another process."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-u", "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_database_in_memory_lasts_as_long_as_its_connections():
    with fleetdb.connect() as db:
        other = db.cursor()
        db.insert("t", {"id": [1]}, create=True)
        assert other.sql("SELECT * FROM t").fetchall() == [(1,)]
    assert other.sql("SELECT * FROM t").fetchall() == [(1,)], "the other connection keeps it"
    other.close()
    with fleetdb.connect() as db:
        assert db.tables() == []


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path):
    with fleetdb.connect(tmp_path / "db", durability="os", memory_limit="256MiB") as db:
        assert db.insert("t", {"id": [1, 2]}, create=True).durability == "os"
        assert db.insert("t", {"id": [3]}, durability="sync").durability == "sync"
        sequences = [db.insert("t", {"id": [number]}).sequence for number in range(4, 6)]
        assert sequences[1] == sequences[0] + 1
    with fleetdb.connect(str(tmp_path / "db")) as db:
        assert db.table("t").count() == 5
        assert str(db.path) == str(tmp_path / "db")
    with pytest.raises(fleetdb.Error, match="unknown durability 'never'"):
        fleetdb.connect(tmp_path / "db", durability="never")
    with pytest.raises(ValueError, match="is no size"):
        fleetdb.connect(tmp_path / "db", memory_limit="much")
    with pytest.raises(fleetdb.Error):
        fleetdb.connect(tmp_path / "nothing", read_only=True)


def test_a_second_process_learns_who_has_the_database_open(embedded, tmp_path):
    embedded.insert("t", {"id": [1]}, create=True)
    program = """
        import sys, fleetdb
        try:
            fleetdb.connect(sys.argv[1])
        except fleetdb.RetryError as error:
            print(error)
        with fleetdb.connect(sys.argv[1], read_only=True) as db:
            print(db.read_only, db.sql("SELECT * FROM t").fetchall())
            try:
                db.insert("t", {"id": [2]})
            except fleetdb.Error as error:
                print(error.code)
    """
    said, wrong = start(program, tmp_path / "db").communicate(timeout=60)
    assert f"open for writing in another process ({os.getpid()})" in said, wrong
    assert "read_only=True" in said
    assert "True [(1,)]\n25006\n" in said
    with pytest.raises(fleetdb.RetryError, match="open for writing in this process"):
        fleetdb.connect(tmp_path / "db")


def test_a_reader_sees_what_the_writer_writes_next(embedded, tmp_path):
    embedded.insert("t", {"id": [1]}, create=True)
    with fleetdb.connect(tmp_path / "db", read_only=True) as reader:
        assert reader.table("t").count() == 1
        embedded.insert("t", {"id": [2]})
        assert reader.table("t").count() == 2
        assert reader.table("t")[2].last() == {"id": 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_gets_an_error_and_harms_nothing(embedded, tmp_path):
    embedded.insert("t", {"id": [1]}, create=True)
    result = embedded.sql("SELECT * FROM t")

    def child():
        embedded.cancel()
        uses = (lambda: embedded.sql("SELECT 1"), result.fetchall, embedded.cursor)
        said = refusals(*uses, lambda: embedded.insert("t", {"id": [2]}))
        embedded.close()
        return said

    said = in_fork(child)
    assert said == ["57P03 True"] * 4
    assert result.fetchall() == [(1,)]
    embedded.insert("t", {"id": [2]})
    assert embedded.table("t").count() == 2


@pytest.mark.parametrize("read", ["fetchall", "arrow", "df", "pl"])
def test_ctrl_c_ends_a_query(read):
    program = """
        import signal, sys, threading, time, os, fleetdb
        db = fleetdb.connect(progress=False)
        def interrupt():
            time.sleep(1)
            global begun
            begun = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            getattr(db.sql(sys.argv[1]), sys.argv[2])()
        except KeyboardInterrupt:
            print(time.perf_counter() - begun)
        print(db.sql("SELECT 7").fetchone())
    """
    said, wrong = start(program, LONG, read).communicate(timeout=60)
    seconds, row = said.splitlines()
    assert float(seconds) < 0.2, wrong
    assert row == "(7,)"


def test_another_thread_cancels_a_query(embedded):
    timer = threading.Timer(0.5, embedded.cancel)
    timer.start()
    begun = time.perf_counter()
    with pytest.raises(fleetdb.CancelledError) as raised:
        embedded.sql(LONG).fetchall()
    assert raised.value.code == "57014" and raised.value.kind == "retry"
    assert time.perf_counter() - begun < 2
    assert embedded.sql("SELECT 7").fetchone() == (7,)
    embedded.cancel()
    assert embedded.sql("SELECT 7").fetchone() == (7,)


def test_a_statement_has_a_timeout(embedded):
    embedded.sql("SET statement_timeout = '200ms'")
    with pytest.raises(fleetdb.CancelledError, match="statement_timeout"):
        embedded.sql(LONG).fetchall()


def test_other_threads_run_meanwhile(embedded):
    """The GIL is free while the engine works."""
    counted = 0
    is_done = threading.Event()

    def query():
        embedded.sql("SELECT count(*) FROM generate_series(1, 30000000) AS g(n)").fetchall()
        is_done.set()

    thread = threading.Thread(target=query)
    thread.start()
    begun = time.perf_counter()
    while not is_done.is_set() and time.perf_counter() - begun < 30:
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 20


def test_threads_share_a_connection_and_have_their_own(embedded):
    embedded.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, thread BIGINT)")
    errors = []

    def work(number):
        try:
            connection = embedded if number % 2 else embedded.cursor()
            for step in range(50):
                connection.insert("t", {"id": [number * 1000 + step], "thread": [number]})
                assert connection.sql("SELECT count(*) FROM t WHERE thread = $1", [number]).fetchone() == (step + 1,)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert embedded.table("t").count() == 300


def test_results_are_read_side_by_side(embedded):
    embedded.insert("t", {"id": list(range(50_000))}, create=True)
    first, second = (embedded.sql("SELECT id FROM t ORDER BY id") for _ in range(2))
    for number in range(50_000):
        assert first.fetchone() == second.fetchone() == (number,)
    assert first.fetchone() is None
    left = embedded.sql("SELECT id FROM t")
    left.fetchone()
    del left
    assert embedded.table("t").count() == 50_000


def test_transactions_are_of_the_connection(embedded):
    other = embedded.cursor()
    embedded.sql("CREATE TABLE t (id BIGINT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
    assert (embedded.table("t").count(), other.table("t").count()) == (1, 0)
    embedded.sql("ROLLBACK")
    assert embedded.table("t").count() == 0


def test_an_error_of_any_kind_fails_the_transaction(embedded):
    wrong = [
        lambda: embedded.sql("SELECT 1; SELECT 1 +"),
        lambda: embedded.sql("SELECT $1 +", [1]),
        lambda: embedded.sql("SELECT $1::bigint", [1, 2]),
        lambda: embedded.prepare("SELECT $1 +"),
    ]
    for fail in wrong:
        embedded.sql("BEGIN")
        with pytest.raises(fleetdb.ProgrammingError):
            fail()
        with pytest.raises(fleetdb.Error) as raised:
            embedded.sql("SELECT 1")
        assert raised.value.code == "25P02"
        embedded.sql("ROLLBACK")


def test_a_registered_frame_is_a_table(embedded):
    polars = pytest.importorskip("polars")
    embedded.insert("reads", {"meter": [7, 8], "kwh": [1.0, 2.0]}, key="meter", create=True)
    embedded.register("prices", polars.DataFrame({"meter": [7], "euro": [0.5], "note": ["a"]}))
    joined = "SELECT meter, kwh * euro, note FROM reads JOIN prices USING (meter)"
    assert embedded.sql(joined).fetchall() == [(7, 0.5, "a")]
    embedded.register("prices", {"meter": [8], "euro": [2.0], "note": [None]} | {"note": ["b"]})
    assert embedded.sql(joined).fetchall() == [(8, 4.0, "b")]
    with pytest.raises(fleetdb.ProgrammingError):
        embedded.cursor().sql("SELECT * FROM prices")
    embedded.unregister("prices")
    with pytest.raises(fleetdb.ProgrammingError):
        embedded.sql("SELECT * FROM prices")


def test_a_result_of_the_connection_is_read_by_another_library_while_it_is_written():
    """The thread that computes the rows does not wait for them."""
    pytest.importorskip("pyarrow")
    program = """
        import concurrent.futures, fleetdb, pyarrow
        db = fleetdb.connect()
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        def rows(query):
            return pyarrow.RecordBatchReader.from_stream(db.sql(query))
        def in_a_thread(reader):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                while (batch := pool.submit(next, reader, None).result()) is not None:
                    yield batch
        print(db.insert("t", rows("SELECT n AS id FROM generate_series(1, 50000) AS g(n)")).rows)
        doubled = rows("SELECT id + 50000 AS id FROM t")
        reader = pyarrow.RecordBatchReader.from_batches(doubled.schema, in_a_thread(doubled))
        print(db.insert("t", reader, batch_rows=1000).rows)
        with db.batch() as batch:
            batch.insert("t", rows("SELECT 0 AS id"))
        print(batch.written.rows, db.table("t").count())
        db.register("r", rows("SELECT id FROM t"))
        print(db.sql("SELECT count(*) FROM r").fetchone()[0])
        try:
            db.insert("t", rows("SELECT 10 / (50000 - n) AS id FROM generate_series(1, 100000) AS g(n)"))
        except fleetdb.Error as error:
            print("division by zero" in str(error))
    """
    writer = start(program)
    try:
        said, wrong = writer.communicate(timeout=60)
    finally:
        writer.kill()
    assert said.splitlines() == ["50000", "50000", "1 100001", "100001", "True"], wrong


def test_an_insert_is_cancelled_between_its_batches(embedded):
    pyarrow = pytest.importorskip("pyarrow")

    def rows():
        yield pyarrow.record_batch({"id": [1, 2]})
        embedded.cancel()
        yield pyarrow.record_batch({"id": [3, 4]})

    embedded.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("id", pyarrow.int64())]), rows())
    with pytest.raises(fleetdb.CancelledError, match="after 2 rows, which are written"):
        embedded.insert("t", reader, batch_rows=2)
    assert embedded.table("t").count() == 2
    assert embedded.insert("t", {"id": [3]}).rows == 1


def test_a_backup_is_a_database(embedded, tmp_path):
    embedded.insert("t", {"id": [1, 2]}, create=True)
    report = embedded.backup(tmp_path / "backup")
    assert report["segments"] == 1 and report["bytes"] > 0
    with fleetdb.connect(tmp_path / "backup", read_only=True) as copy:
        assert copy.table("t").count() == 2


def test_a_killed_process_keeps_what_was_acknowledged(tmp_path):
    program = """
        import sys, fleetdb
        db = fleetdb.connect(sys.argv[1], durability=sys.argv[2])
        db.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY)")
        number = db.sql("SELECT coalesce(max(id), 0) FROM t").fetchone()[0]
        while True:
            number += 1
            db.insert("t", {"id": [number]})
            print(number)
    """
    last = 0
    for durability in ("os", "interval", "sync") * int(os.environ.get("FLEETDB_KILLS", "2")):
        writer = start(program, tmp_path / "db", durability)
        acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        writer.wait()
        assert acknowledged[0] > last
        with fleetdb.connect(tmp_path / "db") as db:
            ((count, greatest),) = db.sql("SELECT count(*), max(id) FROM t").fetchall()
            assert count == greatest >= acknowledged[-1]
            last = greatest


def test_an_interrupted_insert_says_so(tmp_path):
    program = """
        import os, signal, sys, threading, time, fleetdb
        db = fleetdb.connect(sys.argv[1], progress=False)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                db.insert("t", {"id": list(range(100_000))}, create=True, batch_rows=1_000)
        except KeyboardInterrupt:
            print(db.table("t").count() % 1000)
    """
    said, wrong = start(program, tmp_path / "db").communicate(timeout=60)
    assert said == "0\n", wrong


def test_columns_of_fixed_width_are_not_copied(tmp_path):
    """A million rows of ten columns come from NumPy's memory."""
    pytest.importorskip("pyarrow")
    program = """
        import resource, sys, numpy, pyarrow, fleetdb
        rows = 1_000_000
        columns = {"ts": numpy.arange(rows).astype("M8[s]")}
        columns |= {f"v{number}": numpy.random.rand(rows) for number in range(9)}
        table = pyarrow.table(columns)
        db = fleetdb.connect(sys.argv[1], memory_limit="256MiB", durability="interval")
        db.insert("t", table.slice(0, 1000), key=[], create=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        db.insert("t", table)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, table.nbytes // 1024)
    """
    said, wrong = start(program, tmp_path / "db").communicate(timeout=120)
    grown, size = map(int, said.split())
    assert size > 70_000, wrong
    # The engine has its memory limit. A copy of the table would come on top of it.
    assert grown < 256 * 1024, f"{grown} KiB"


def test_rows_before_1970_and_after_2262(embedded):
    embedded.sql("CREATE TABLE t (id BIGINT, at TIMESTAMP(6), PRIMARY KEY (id, at))")
    times = [datetime.datetime(1, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime.max]
    embedded.insert("t", [(1, at) for at in times])
    assert [at for _, at in embedded.table("t")[1][:].fetchall()] == times
