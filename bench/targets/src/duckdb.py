"""Runs DuckDB in a separate process: its crate takes far too long to compile, while its Python package is prebuilt.

A request is the length of the header (4 bytes, little-endian), the header as JSON, and an Arrow IPC stream of the length
that the header gives; an answer has the same form. Requests: {"run": text}, {"insert": table, "bytes": n}, {"query": text, "values": [...]}.
"""

import json
import struct
import sys

import duckdb
import pyarrow

take, give = sys.stdin.buffer, sys.stdout.buffer
db = duckdb.connect(sys.argv[1])


def stream(table):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def do(header, body):
    if "run" in header:
        db.execute(header["run"])
        return b""
    if "insert" in header:
        # The statement refers to it by name.
        rows = pyarrow.ipc.open_stream(body).read_all()
        db.execute(f"INSERT OR REPLACE INTO {header['insert']} SELECT * FROM rows")
        return b""
    answer = db.sql(header["query"], params=header["values"])
    return stream(answer.to_arrow_table() if hasattr(answer, "to_arrow_table") else answer.arrow())


def say(header, body=b""):
    text = json.dumps({**header, "bytes": len(body)}).encode()
    give.write(struct.pack("<I", len(text)) + text + body)
    give.flush()


say({"version": duckdb.__version__})
while length := take.read(4):
    header = json.loads(take.read(struct.unpack("<I", length)[0]))
    body = take.read(header.get("bytes", 0))
    try:
        say({}, do(header, body))
    except Exception as error:
        say({"error": str(error)})
