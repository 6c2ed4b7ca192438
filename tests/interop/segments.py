#!/usr/bin/env python3
"""Opens segment files with DuckDB and pyarrow alone and compares their rows with FleetDB's own export.

Usage: segments.py DATABASE EXPORTS. Each table has one segment for each of its time partitions, no rows twice.
"""
import glob
import sys

import duckdb
import pyarrow.parquet as pq

database, exports = sys.argv[1:]
for directory in sorted(glob.glob(f"{database}/segments/*")):
    files = sorted(glob.glob(f"{directory}/*.parquet"))
    if not files:
        continue
    table = pq.ParquetFile(files[0]).schema.to_arrow_schema()
    # The segment's metadata name the table's number; the exports name it by name: match by columns.
    for csv in glob.glob(f"{exports}/*.csv"):
        with open(csv) as f:
            if f.readline().strip().split(",") == table.names:
                break
    else:
        raise SystemExit(f"no export for {directory}")
    name = csv.rsplit("/", 1)[1][:-4]
    db = duckdb.connect()
    db.sql("SET TimeZone = 'UTC'")
    columns = {r[0]: r[1] for r in db.sql(f"DESCRIBE SELECT * FROM read_parquet({files})").fetchall()}
    theirs = db.sql(f"SELECT * FROM read_parquet({files}) ORDER BY ALL")
    ours = db.sql(f"SELECT * FROM read_csv('{csv}', header = true, nullstr = '', columns = {columns}) ORDER BY ALL")
    a, b = theirs.fetchall(), ours.fetchall()
    assert len(a) == len(b), f"{name}: {len(a)} rows in segments, {len(b)} exported"
    for x, y in zip(a, b):
        assert x == y, f"{name}: {x} in the segment, {y} exported"
    arrow = [row for file in files for row in pq.read_table(file, page_checksum_verification=True).to_pylist()]
    assert len(arrow) == len(a), f"{name}: pyarrow reads {len(arrow)} rows"
    for column in table.names:
        nulls = sum(row[column] is None for row in arrow)
        assert nulls == sum(row[table.names.index(column)] is None for row in a), f"{name}.{column}: NULLs"
        if columns[column] in ("DOUBLE", "BIGINT", "VARCHAR", "UBIGINT"):
            values = sorted(row[column] for row in arrow if row[column] is not None)
            place = table.names.index(column)
            assert values == sorted(row[place] for row in a if row[place] is not None), f"{name}.{column}"
    print(f"{name}: {len(a)} rows")
