"""Rates of writing and reading from Python, next to DuckDB's package: `python tests/rates.py [ROWS]`.

It needs pandas, polars, pyarrow and duckdb. It prints rows and megabytes per second, and how much the
resident set grew. Sizes are those of the columns in memory.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy
import pandas
import polars
import pyarrow

import fleetdb

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000


def columns(rows):
    """A device, a time and eight numbers."""
    random = numpy.random.default_rng(7)
    found = {"id": numpy.arange(rows) % 1000, "ts": (numpy.arange(rows) // 1000).astype("M8[s]")}
    return found | {f"v{number}": random.random(rows) for number in range(8)}


def measured(name, work, rows, size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{name:44} {rows / seconds:12,.0f} rows/s {size / seconds / 1e6:8,.0f} MB/s {grown:8,.0f} MiB more")


def main():
    arrays = columns(ROWS)
    arrow = pyarrow.table(arrays)
    frames = {"Arrow": arrow, "polars": polars.DataFrame(arrow), "pandas": pandas.DataFrame(arrays)}
    size = arrow.nbytes
    with tempfile.TemporaryDirectory() as directory:
        for durability in ("interval", "sync"):
            for name, frame in frames.items():
                path = Path(directory) / f"{durability}-{name}"
                with fleetdb.connect(path, durability=durability, progress=False) as db:
                    db.insert("t", arrow.slice(0, 1), key="id", time="ts", create=True)
                    work = lambda db=db, frame=frame: db.insert("t", frame)
                    measured(f"insert from {name} at {durability}", work, ROWS, size)
        with fleetdb.connect(path, progress=False) as db:
            for name in ("arrow", "pl", "df"):
                # The first time decodes the pages.
                db.sql("SELECT * FROM t").arrow()
                work = lambda db=db, name=name: getattr(db.sql("SELECT * FROM t"), name)()
                measured(f"SELECT * as {name}()", work, ROWS, size)
        other = duckdb.connect(str(Path(directory) / "duckdb.db"))
        other.execute("CREATE TABLE t AS SELECT * FROM arrow LIMIT 0")
        for name, frame in frames.items():
            other.register("frame", frame)
            work = lambda: other.execute("INSERT INTO t SELECT * FROM frame")
            measured(f"DuckDB: insert from {name}", work, ROWS, size)
        other.execute(f"DELETE FROM t WHERE rowid >= {ROWS}")
        measured("DuckDB: SELECT * as Arrow", lambda: other.sql("SELECT * FROM t").to_arrow_table(), ROWS, size)


main()
