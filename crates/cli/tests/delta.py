"""Reads a Delta table with the programs of others: `delta.py URL [DIRECTORY]`. The directory has DuckDB 1.5 with its
extension for Delta. Prints one line for each program: its name, the number of rows, the sum of kwh, the last ts."""

import subprocess
import sys

import deltalake
import pandas
import polars
import pyarrow

url = sys.argv[1]
table = deltalake.DeltaTable(url)
arrow = table.to_pyarrow_table()
frame = arrow.to_pandas()
print("pandas", len(frame), frame["kwh"].sum(), frame["ts"].max())
frame = polars.read_delta(url)
print("polars", len(frame), frame["kwh"].sum(), frame["ts"].max())
rows = deltalake.QueryBuilder().register("t", table).execute("SELECT count(*) AS n, sum(kwh) AS s, max(ts) AS m FROM t")
row = pyarrow.table(rows.read_all()).to_pylist()[0]
print("deltalake", *row.values())

if len(sys.argv) > 2:
    script = """
import duckdb, duckdb_extension_delta, glob, os, sys
extension = glob.glob(os.path.dirname(duckdb_extension_delta.__file__) + "/extensions/*/*")[0]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute(f"LOAD '{extension}'")
print("duckdb", *connection.sql(f"SELECT count(*), sum(kwh), max(ts) FROM delta_scan('{sys.argv[1]}')").fetchone())
"""
    subprocess.run([sys.executable, "-c", script, url], check=True, env={"PYTHONPATH": sys.argv[2]})
