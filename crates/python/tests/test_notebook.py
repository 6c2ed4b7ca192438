"""The notebook examples/fleet.ipynb runs, and says the same in two ways."""

import os
from pathlib import Path

import pytest
from conftest import HAS_NATIVE, NO_SERVER

ROOT = Path(__file__).parents[3]

# Lets the notebook run over HTTP where the native module is not built.
ELSEWHERE = """
import sys
sys.path[:0] = {paths!r}
import native_double
sys.modules["fleetdb._native"] = native_double
import fleetdb
_connect = fleetdb.connect
fleetdb.connect = lambda *_, **options: _connect({url!r}, **options)
"""


def test_the_notebook_runs(request):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for library in ("ipykernel", "matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(library)
    notebook = nbformat.read(ROOT / "examples/fleet.ipynb", as_version=4)
    if HAS_NATIVE:
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "crates/python/python"), os.environ.get("PYTHONPATH", "")]
        )
    else:
        import servers

        if servers.command() is None:
            pytest.skip(NO_SERVER)
        server = servers.Server()
        request.addfinalizer(server.stop)
        paths = [str(ROOT / "crates/python/tests"), str(ROOT / "crates/python/python")]
        notebook.cells.insert(0, nbformat.v4.new_code_cell(ELSEWHERE.format(paths=paths, url=server.url)))
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    told = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.data for output in told if "data" in output]
    assert any("image/png" in data for data in shown), "there is a plot"
    assert any("more than 40 rows" in data.get("text/html", "") for data in shown), "the newest rows are a table"
    one, other = next(
        eval(data["text/plain"].replace("np.float64", "")) for data in shown if data["text/plain"].startswith("(")
    )
    assert abs(one - other) < 1e-9
