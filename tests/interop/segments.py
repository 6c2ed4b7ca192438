#!/usr/bin/env python3
"""Opens segment files with DuckDB and pyarrow alone and compares their rows with FleetDB's own export.

Usage: segments.py DATABASE EXPORTS. Each table has one segment for each of its time partitions, no rows twice.
"""
import glob
import sys

import duckdb
import pyarrow.parquet as pq



def array_text(values):
    """The text of an array in PostgreSQL's form."""
    texts = ["NULL" if value is None else str(value) for value in values]
    return "{" + ",".join(f'"{text}"' if " " in text else text for text in texts) + "}"


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
    lists = [name for name, type_name in columns.items() if type_name.endswith("[]")]
    columns_of_csv = columns | {name: "VARCHAR" for name in lists}
    theirs = db.sql(f"SELECT * FROM read_parquet({files}) ORDER BY ALL")
    ours = db.sql(f"SELECT * FROM read_csv('{csv}', header = true, nullstr = '', columns = {columns_of_csv}) ORDER BY ALL")
    a, b = theirs.fetchall(), ours.fetchall()
    assert len(a) == len(b), f"{name}: {len(a)} rows in segments, {len(b)} exported"
    a = [tuple(array_text(value) if isinstance(value, list) else value for value in row) for row in a]
    for x, y in zip(a, b):
        assert x == y, f"{name}: {x} in the segment, {y} exported"
    arrow = [pq.read_table(file, page_checksum_verification=True) for file in files]
    assert sum(part.num_rows for part in arrow) == len(a), f"{name}: pyarrow reads another number of rows"
    for place, column in enumerate(table.names):
        parts = [part.column(column) for part in arrow]
        nulls = sum(part.null_count for part in parts)
        assert nulls == sum(row[place] is None for row in a), f"{name}.{column}: NULLs"
        if columns[column] in ("DOUBLE", "BIGINT", "VARCHAR", "UBIGINT", "DECIMAL(9,2)", "DECIMAL(18,6)", "TIME"):
            values = sorted(value for part in parts for value in part.to_pylist() if value is not None)
            assert values == sorted(row[place] for row in a if row[place] is not None), f"{name}.{column}"
    if name == "types":
        found = [columns[column] for column in ("device", "opens", "doc", "raw", "burst", "words")]
        assert found == ["UUID", "TIME", "JSON", "JSON", "BIGINT[]", "VARCHAR[]"], found
    print(f"{name}: {len(a)} rows")
