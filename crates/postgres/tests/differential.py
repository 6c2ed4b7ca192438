"""Compares FleetDB's answers with DuckDB's over the same Parquet files; see differential.rs.

Arguments: the database's directory, the file of queries and answers, then name=number of each table. The file holds,
for each query, its text for DuckDB on one line, its rows (cells between tabs), and a line with a semicolon.
"""

import datetime
import decimal
import glob
import sys

import duckdb

MOST_SHOWN = 10
EPOCH = datetime.datetime(1970, 1, 1)


def text(cell):
    if cell is None:
        return "NULL"
    if isinstance(cell, datetime.datetime):
        return str((cell - EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(cell, datetime.date):
        return text(datetime.datetime.combine(cell, datetime.time()))
    if isinstance(cell, (float, decimal.Decimal)):
        return f"{cell:.9f}"
    return str(cell)


def main():
    directory, asked, *tables = sys.argv[1:]
    db = duckdb.connect()
    for table in tables:
        name, number = table.split("=")
        files = [f for f in glob.glob(f"{directory}/**/*.parquet", recursive=True) if table_of(f) == int(number)]
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [files])
    queries, different = 0, 0
    lines = iter(open(asked, encoding="utf-8").read().split("\n"))
    for sql in lines:
        if not sql:
            continue
        given = []
        for line in lines:
            if line == ";":
                break
            if line:
                given.append(line)
        expected = ["\t".join(map(text, row)) for row in db.execute(sql).fetchall()]
        if given != expected:
            different += 1
            print(f"{sql}\nFleetDB, {len(given)} rows: {given[:5]}\nDuckDB, {len(expected)} rows: {expected[:5]}")
            for place, (a, b) in enumerate(zip(given, expected)):
                if a != b:
                    print(f"row {place}: {a!r}, not {b!r}")
                    break
            if different == MOST_SHOWN:
                break
        queries += 1
    if different:
        sys.exit(1)
    print(f"{queries} queries have equal answers")


def table_of(file):
    """The table's number is the name of the directory that its segments are in."""
    return int("".join(c for c in file.split("/")[-2] if c.isdigit()) or -1)


main()
