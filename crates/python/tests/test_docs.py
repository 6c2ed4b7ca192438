"""The examples of docs/python.md and of the README run, and print what is there."""

import contextlib
import io
import os
import re
from pathlib import Path

import fleetdb
import pytest
from conftest import HAS_NATIVE, NO_SERVER

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(
    r"(?P<embedded><!-- embedded -->\n\n)?```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<said>.*?)```\n)?", re.DOTALL
)


def examples(text):
    return [(block["code"], block["said"], block["embedded"] is not None) for block in BLOCK.finditer(text)]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, request):
    """An empty directory. Without the native module, databases are those of a server."""
    for library in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    connect, opened = fleetdb.connect, {}
    if HAS_NATIVE:

        def first(database=":memory:", **options):
            # The document opens the directory a second time.
            if database in opened:
                return opened[database].cursor()
            return opened.setdefault(database, connect(database, **options))

    else:
        import servers

        if servers.command() is None:
            pytest.skip(NO_SERVER)
        server = servers.Server(data=str(tmp_path / "server"))
        request.addfinalizer(server.stop)

        def first(database=":memory:", **options):
            return connect(server.url, **options)

    monkeypatch.setattr(fleetdb, "connect", first)
    monkeypatch.setattr("fleetdb.dbapi._connect", first)


def run(text):
    names = {"__name__": "example"}
    shown = []
    for code, said, is_embedded in examples(text):
        if is_embedded and not HAS_NATIVE:
            shown.append((code, said))
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "example", "exec"), names)
        shown.append((code, out.getvalue() if said is not None else None))
        assert os.environ.get("FLEETDB_BLESS") or said is None or out.getvalue() == said, f"{code}\n{out.getvalue()}"
    return shown


def test_the_document_is_true(elsewhere):
    path = ROOT / "docs/python.md"
    text = path.read_text()
    assert len(examples(text)) > 10
    shown = run(text)
    if os.environ.get("FLEETDB_BLESS"):
        outputs = iter(shown)

        def blessed(block):
            code, said = next(outputs)
            told = "" if said is None else f"\n```text\n{said}```\n"
            return f"{block['embedded'] or ''}```python\n{code}```\n{told}"

        path.write_text(BLOCK.sub(blessed, text))


def test_the_readme_is_true(elsewhere):
    text = (ROOT / "README.md").read_text()
    assert examples(text), "the README has lines of Python"
    run(text)
