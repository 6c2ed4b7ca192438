"""The type stubs say what is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent

USE = """
import fleetdb

with fleetdb.connect("fleet.db", durability="interval", memory_limit="512MiB") as db:
    written: fleetdb.Written = db.insert("reads", {"meter": [7]}, time="ts", key=["meter"], create=True)
    count: int = written.rows
    result = db.sql("SELECT * FROM reads WHERE meter = $1", [7])
    names: list[str] = result.columns
    total: float | None = db.table("reads")[7].aggregate("kwh", "2026-01-01").avg
    for row in db.table("reads")["a", 7]["2026-01-01":"2026-02-01"]:
        print(row[0])
    with db.batch() as batch:
        batch.insert("reads", [{"meter": 7}])
"""


def run(*command):
    source = str(PACKAGE / "python")
    environment = {**os.environ, "PYTHONPATH": source, "MYPYPATH": source}
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_package(tmp_path):
    pytest.importorskip("mypy")
    # What only type checkers see.
    allowed = tmp_path / "allowed"
    allowed.write_text("fleetdb\\._types\n")
    options = ["--ignore-missing-stub", "--mypy-config-file", "pyproject.toml", "--allowlist", str(allowed)]
    status, said = run("mypy.stubtest", "fleetdb", *options)
    assert status == 0, said


def test_a_program_is_checked_with_them(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    status, said = run("mypy", "--strict", "--config-file=", str(tmp_path / "use.py"))
    assert status == 0, said
    (tmp_path / "wrong.py").write_text('import fleetdb\nfleetdb.connect(durability="never")\n')
    status, said = run("mypy", "--config-file=", str(tmp_path / "wrong.py"))
    assert status == 1 and "incompatible type" in said, said
