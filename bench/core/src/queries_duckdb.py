"""E2's queries on DuckDB: a native table sorted by key and time, from FleetDB's Parquet files.

Arguments: the database's directory, then name and text of each query. Prints a JSON object of name to
[median microseconds, checksum]; the checksum is FNV-1a over the answer's values as text, as in queries.rs.
"""

import glob
import json
import statistics
import sys
import time

import duckdb

REPEAT_S = 0.5
LEAST_REPEATS = 5


def checksum(rows):
    value = 0xCBF29CE484222325
    for row in rows:
        for cell in row:
            for byte in str(cell).encode() + b"\0":
                value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def main():
    directory, *queries = sys.argv[1:]
    db = duckdb.connect()
    db.execute("SET threads = 1")
    files = glob.glob(directory + "/**/*.parquet", recursive=True)
    db.execute("CREATE TABLE cpu AS SELECT * FROM read_parquet(?) ORDER BY hostname, ts", [files])
    results = {}
    for name, text in zip(queries[::2], queries[1::2]):
        # Times as integers in what is compared, and only there.
        columns = db.execute(f"DESCRIBE {text}").fetchall()
        shown = [f'epoch_ns("{c}")' if t.startswith("TIMESTAMP") else f'"{c}"' for (c, t, *_) in columns]
        rows = db.execute(f"SELECT {', '.join(shown)} FROM ({text})").fetchall()
        db.execute(f"PREPARE q AS {text}")
        times, start = [], time.perf_counter()
        while len(times) < LEAST_REPEATS or time.perf_counter() - start < REPEAT_S:
            begin = time.perf_counter()
            result = db.sql("EXECUTE q")
            result.to_arrow_table() if hasattr(result, "to_arrow_table") else result.arrow()
            times.append((time.perf_counter() - begin) * 1e6)
        db.execute("DEALLOCATE q")
        results[name] = [statistics.median(times), checksum(rows)]
    print(json.dumps(results))


main()
