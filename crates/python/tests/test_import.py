"""What importing the package costs and needs, and what its command does."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parent.parent / "python")


def python(program, *options):
    path = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_importing_needs_no_other_library():
    program = "import sys, fleetdb; print(sorted({'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    assert python(program) == "[]\n"


def test_importing_is_fast():
    program = "import time; begun = time.perf_counter(); import fleetdb; print(time.perf_counter() - begun)"
    seconds = [float(python(program)) for _ in range(7)]
    assert statistics.median(seconds) < 0.06, seconds


# Hides the libraries that are named after it.
HIDE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
"""


def test_a_database_needs_no_other_library():
    program = """
HIDDEN = ("numpy", "pandas", "polars", "pyarrow")
import datetime, fleetdb
with fleetdb.connect() as db:
    rows = {"meter": [7, 8], "ts": [datetime.datetime(2026, 1, 1)] * 2, "kwh": [0.5, None]}
    db.insert("reads", rows, create=True)
    print(db.sql("SELECT * FROM reads ORDER BY meter").to_dicts()[1]["kwh"], db.table("reads")[7].last()["kwh"])
"""
    assert python(HIDE + program) == "None 0.5\n"


def test_frames_of_pandas_are_the_same_without_pyarrow():
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    program = """
import datetime, fleetdb, pandas
times = pandas.to_datetime(["2026-01-01T00:00:00.123456789", None])
frame = pandas.DataFrame({
    "id": [1, 2],
    "f": [0.5, float("nan")],
    "g": pandas.array([0.5, float("nan")], "float32"),
    "i": pandas.array([1, None], "Int32"),
    "b": pandas.array([True, None], "boolean"),
    "s": ["a", None],
    "naive": times,
    "zoned": times.tz_localize("Europe/Berlin"),
    "seconds": times.tz_localize("UTC").as_unit("s"),
    "o": pandas.Series([1.5, float("nan")], dtype=object),
})
with fleetdb.connect() as db:
    db.insert("t", frame, key="id", time=False, create=True)
    series = {name: frame[name] for name in frame} | {"at": times.tz_localize("UTC")}
    db.insert("u", series, key="id", time=False, create=True)
    for table in "tu":
        print([(column.name, column.type) for column in db.schema(table)])
        print(db.sql(f"SELECT * FROM {table} ORDER BY id").fetchall())
        nanoseconds = "'2026-01-01 00:00:00.123456789'::timestamp(9)"
        query = f"SELECT naive = {nanoseconds}, zoned::timestamp(9) + interval '1 hour' = {nanoseconds} FROM {table}"
        print(db.sql(f"{query} ORDER BY id").fetchall())
    try:
        db.insert("t", pandas.DataFrame([[1, 2]], columns=["id", "id"]))
    except ValueError as error:
        print(error)
"""
    said = python(program)
    assert said.count("[(True, True), (None, None)]") == 2 and "nan" not in said.lower()
    assert python(HIDE + "HIDDEN = ('pyarrow',)" + program) == said


def test_the_wheel_brings_the_command(tmp_path):
    run = [sys.executable, "-m", "fleetdb"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    version = subprocess.run([*run, "--version"], capture_output=True, text=True, env=environment)
    assert version.returncode == 0 and version.stdout.startswith("fleetdb ")
    sql = [*run, "sql", "--data", str(tmp_path / "db"), "--create", "--format", "csv", "-c", "SELECT 7 AS n"]
    assert subprocess.run(sql, capture_output=True, text=True, env=environment).stdout == "n\n7\n"
    wrong = subprocess.run([*run, "nope"], capture_output=True, text=True, env=environment)
    assert wrong.returncode == 2 and "nope" in wrong.stderr


def test_every_public_name_is_there():
    program = "import fleetdb; print([name for name in fleetdb.__all__ if not hasattr(fleetdb, name)])"
    assert python(program) == "[]\n"
