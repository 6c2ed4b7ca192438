"""Runs the queries on DuckDB, on native tables sorted by key and time that are loaded from FleetDB's Parquet files.

Arguments: the directory of the databases, then for each query its name, its text and whether the order counts. Prints a
JSON object that maps names to [median microseconds, checksum]; checksum.rs defines the checksum.
"""

import glob
import json
import statistics
import sys
import time
import zlib

import duckdb

REPEAT_S = 0.5
LEAST_REPEATS = 5
LIMIT_S = 10
# Tables and their keys; the index of a table is the name of the directory with its segments.
TABLES = [("cpu", "hostname"), ("readings", "name"), ("diagnostics", "name")]


def cell(value):
    if value is None:
        return ""
    if isinstance(value, (int, str)):
        return str(value)
    mantissa, exponent = f"{float(value):.8e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def checksum(rows, ordered):
    value = 0
    for row in rows:
        crc = zlib.crc32("".join(cell(v) + "\0" for v in row).encode()) + 1
        value = (value * 31 if ordered else value) + crc
        value %= 2**64
    return value


def main():
    directory, *queries = sys.argv[1:]
    # In a file, like the other databases.
    db = duckdb.connect(f"{directory}/duckdb")
    db.execute("SET threads = 1")
    # The progress bar would be printed among the results.
    db.execute("SET enable_progress_bar = false")
    for place, (table, key) in enumerate(TABLES):
        files = glob.glob(f"{directory}/segments/{place}/*.parquet")
        db.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet(?) ORDER BY {key}, ts", [files])
    db.execute("CHECKPOINT")
    results = {}
    for name, text, ordered in zip(queries[::3], queries[1::3], queries[2::3]):
        # Times are converted to integers for the comparison only.
        columns = db.execute(f"DESCRIBE {text}").fetchall()
        columns = [('"' + name.replace('"', '""') + '"', type) for (name, type, *_) in columns]
        shown = [f"epoch_ns({c})" if type.startswith("TIMESTAMP") else c for (c, type) in columns]
        rows = db.execute(f"SELECT {', '.join(shown)} FROM ({text})").fetchall()
        db.execute(f"PREPARE q AS {text}")
        times, start = [], time.perf_counter()

        def again():
            spent = time.perf_counter() - start
            return not times or spent < LIMIT_S and (len(times) < LEAST_REPEATS or spent < REPEAT_S)

        while again():
            begin = time.perf_counter()
            result = db.sql("EXECUTE q")
            result.to_arrow_table() if hasattr(result, "to_arrow_table") else result.arrow()
            times.append((time.perf_counter() - begin) * 1e6)
        db.execute("DEALLOCATE q")
        results[name] = [statistics.median(times), checksum(rows, ordered == "true")]
    print(json.dumps(results))


main()
