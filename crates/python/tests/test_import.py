"""What importing the package costs and needs, and what its command does."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import servers
from conftest import HAS_NATIVE, NO_NATIVE

SOURCE = str(Path(__file__).parent.parent / "python")


def python(program, *options):
    path = os.pathsep.join([SOURCE, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, *options, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_importing_needs_no_other_library():
    program = "import sys, fleetdb; print(sorted({'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    assert python(program) == "[]\n"


def test_importing_is_fast():
    program = "import time; begun = time.perf_counter(); import fleetdb; print(time.perf_counter() - begun)"
    seconds = [float(python(program)) for _ in range(7)]
    assert statistics.median(seconds) < 0.06, seconds


@pytest.mark.skipif(not HAS_NATIVE, reason=NO_NATIVE)
def test_a_database_needs_no_other_library():
    program = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pandas", "polars", "pyarrow"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import datetime, fleetdb
with fleetdb.connect() as db:
    rows = {"meter": [7, 8], "ts": [datetime.datetime(2026, 1, 1)] * 2, "kwh": [0.5, None]}
    db.insert("reads", rows, create=True)
    print(db.sql("SELECT * FROM reads ORDER BY meter").to_dicts()[1]["kwh"], db.table("reads")[7].last()["kwh"])
"""
    assert python(program) == "None 0.5\n"


@pytest.mark.skipif(not HAS_NATIVE, reason=NO_NATIVE)
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
    if not HAS_NATIVE:
        program = "import sys, native_double; sys.modules['fleetdb._native'] = native_double; " + program
        if servers.command() is None:
            pytest.skip(NO_NATIVE)
        pytest.importorskip("pyarrow")
    assert python(program) == "[]\n"
