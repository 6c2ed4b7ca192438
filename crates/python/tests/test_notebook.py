"""The notebook examples/fleet.ipynb runs, and says the same in two ways."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_notebook_runs(monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for library in ("ipykernel", "matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(library)
    notebook = nbformat.read(ROOT / "examples/fleet.ipynb", as_version=4)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "crates/python/python"), prepend=os.pathsep)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    told = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.data for output in told if "data" in output]
    assert any("image/png" in data for data in shown), "there is a plot"
    assert any("more than 40 rows" in data.get("text/html", "") for data in shown), "the newest rows are a table"
    one, other = next(
        eval(data["text/plain"].replace("np.float64", "")) for data in shown if data["text/plain"].startswith("(")
    )
    assert abs(one - other) < 1e-9
