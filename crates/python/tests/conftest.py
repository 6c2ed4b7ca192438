"""Connections for the tests: in this process, and over HTTP to a server."""

import importlib.util
import os
import sys

import pytest
import servers

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))

NO_NATIVE = """the native module is not built. Run `maturin develop` in crates/python, or in the checkout:
    cargo build --workspace --lib
    cp target/debug/lib_native.so crates/python/python/fleetdb/_native.abi3.so"""
NO_SERVER = "there is no program `fleetdb`: put it on the path, or its place into FLEETDB_COMMAND"


def pytest_sessionstart():
    if importlib.util.find_spec("fleetdb._native") is None:
        raise pytest.UsageError(NO_NATIVE)


@pytest.fixture(scope="session")
def server():
    """A server that all tests share; each uses tables of its own."""
    if servers.command() is None:
        pytest.skip(NO_SERVER)
    server = servers.Server()
    yield server
    server.stop()


@pytest.fixture(params=["embedded", "http"])
def db(request):
    """A connection of either kind to a database without tables."""
    import fleetdb

    if request.param == "embedded":
        connection = fleetdb.connect(":memory:")
    else:
        connection = fleetdb.connect(request.getfixturevalue("server").url)
        for table in connection.tables():
            connection.sql(f'DROP TABLE "{table}"')
    yield connection
    connection.close()


@pytest.fixture
def embedded(tmp_path):
    """A database in a directory of its own."""
    import fleetdb

    with fleetdb.connect(tmp_path / "db") as connection:
        yield connection
