"""The type stubs say what is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HAS_NATIVE

HERE = Path(__file__).parent
PACKAGE = HERE.parent

CHECK = """
import sys
if not {has_native}:
    import native_double
    sys.modules["fleetdb._native"] = native_double
from mypy import stubtest
sys.argv = ["stubtest", "fleetdb", "--ignore-missing-stub", "--mypy-config-file", "pyproject.toml",
            "--ignore-unused-allowlist", "--allowlist", {allowlist!r}]
sys.exit(stubtest.main())
"""

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


def run(command):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGE / 'python'}{os.pathsep}{HERE}",
        "MYPYPATH": str(PACKAGE / "python"),
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_package(tmp_path):
    pytest.importorskip("mypy")
    # What only type checkers see, and, without the native module, what stands for it.
    allowed = ["fleetdb\\._types"] + ([] if HAS_NATIVE else ["fleetdb\\._native\\..*"])
    (tmp_path / "allowed").write_text("\n".join(allowed))
    program = CHECK.format(has_native=HAS_NATIVE, allowlist=str(tmp_path / "allowed"))
    status, said = run([sys.executable, "-c", program])
    assert status == 0, said


def test_a_program_is_checked_with_them(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    status, said = run([sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path / "use.py")])
    assert status == 0, said
    (tmp_path / "wrong.py").write_text('import fleetdb\nfleetdb.connect(durability="never")\n')
    status, said = run([sys.executable, "-m", "mypy", "--config-file=", str(tmp_path / "wrong.py")])
    assert status == 1 and "incompatible type" in said, said
