#!/usr/bin/env python3
"""Makes tsbs.json: what DuckDB computes over an independent parse of the TSBS samples.

Needs duckdb and pyarrow from PyPI, and zstd. Usage: make.py DATA_DIRECTORY > tsbs.json
The parse is Python's own and shares nothing with FleetDB's: the samples use no escapes.
"""
import json
import subprocess
import sys

import duckdb
import pyarrow as pa


def parse(text):
    tables = {}
    for line in text.splitlines():
        series, fields, time = line.split(" ")
        measurement, *tags = series.split(",")
        row = {"time": int(time)}
        table = tables.setdefault(measurement, {"tags": {}, "fields": {}, "rows": []})
        for tag in tags:
            name, value = tag.split("=")
            table["tags"][name] = True
            row[name] = value
        for field in fields.split(","):
            name, value = field.split("=")
            whole = value.endswith("i")
            row[name] = int(value[:-1]) if whole else float(value)
            table["fields"][name] = table["fields"].get(name, True) and whole
        table["rows"].append(row)
    return tables


def main(directory):
    expected = {}
    for file in ("cpu-only", "iot"):
        text = subprocess.run(["zstd", "-dc", f"{directory}/{file}.lp.zst"], capture_output=True, check=True)
        for name, table in parse(text.stdout.decode()).items():
            columns = {tag: pa.string() for tag in table["tags"]}
            columns["time"] = pa.int64()
            columns |= {field: pa.int64() if whole else pa.float64() for field, whole in table["fields"].items()}
            rows = pa.Table.from_pylist(table["rows"], schema=pa.schema(columns.items()))
            db = duckdb.connect()
            db.register("t", rows)
            # A row with the same key replaces the older one; the sample has none, which this shows.
            key = ", ".join(f'"{c}"' for c in [*table["tags"], "time"])
            assert db.sql(f"SELECT count(*) FROM (SELECT DISTINCT {key} FROM t)").fetchall()[0][0] == len(rows)
            sums = {}
            for field in table["fields"]:
                q = f'SELECT count("{field}"), min("{field}"), max("{field}"), sum("{field}") FROM t'
                sums[field] = [float(v) for v in db.sql(q).fetchall()[0]]
            device = "hostname" if name == "cpu" else "name"
            last = db.sql(
                f'SELECT * FROM t WHERE "{device}" IS NOT NULL '
                f'QUALIFY row_number() OVER (PARTITION BY "{device}" ORDER BY time DESC) = 1 ORDER BY "{device}"'
            )
            names = last.columns
            expected[name] = {
                "count": len(rows),
                "sums": sums,
                "device": device,
                "last": [dict(zip(names, row)) for row in last.fetchall()],
            }
    json.dump(expected, sys.stdout, indent=1)
    print()


main(sys.argv[1])
