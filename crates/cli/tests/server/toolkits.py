"""Runs what toolkits on top of Python's drivers do: SQLAlchemy's reflection and statements, pandas, asyncpg, psycopg2, pg8000."""
import asyncio
import datetime
import sys
import threading

import asyncpg
import pandas
import pg8000.native
import psycopg2
import psycopg2.extras
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import insert

port = int(sys.argv[1])
start = datetime.datetime(2026, 1, 1)
DRIVERS = ["psycopg", "psycopg2", "pg8000"]


def hour(number):
    return start + datetime.timedelta(hours=number)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def engine(driver):
    return sa.create_engine(f"postgresql+{driver}://me@127.0.0.1:{port}/fleetdb")


def toolkit(driver):
    """Creates, fills, changes and reads a table with SQLAlchemy, which begins transactions by itself."""
    db, tables = engine(driver), sa.MetaData()
    columns = [("id", sa.BigInteger, True), ("ts", sa.DateTime, True), ("kwh", sa.Double, False), ("note", sa.Text, False)]
    reads = sa.Table(f"of_{driver}", tables, *(sa.Column(name, of, primary_key=key, autoincrement=False) for name, of, key in columns))
    tables.create_all(db)
    rows = [{"id": 7, "ts": hour(number), "kwh": number / 4, "note": None if number % 2 else f"{number}%"} for number in range(10)]
    with db.begin() as transaction:
        transaction.execute(reads.insert(), rows)
    upsert = insert(reads).values(id=7, ts=hour(0), kwh=9.0)
    with db.begin() as transaction:
        transaction.execute(upsert.on_conflict_do_update(index_elements=["id", "ts"], set_={"kwh": upsert.excluded.kwh}))
        transaction.execute(reads.update().where(reads.c.ts == hour(1)).values(kwh=reads.c.kwh + 1))
        equal(transaction.execute(sa.select(reads.c.kwh).order_by(reads.c.ts).limit(2)).scalars().all(), [9.0, 1.25])
    with db.begin() as transaction:
        written = transaction.execute(reads.insert().returning(reads.c.id, reads.c.ts), [{"id": 8, "ts": hour(0)}, {"id": 9, "ts": hour(0)}])
        equal(sorted(tuple(row) for row in written), [(8, hour(0)), (9, hour(0))])
        changed = transaction.execute(reads.update().where(reads.c.id == 8).values(kwh=2.0).returning(reads))
        equal([tuple(row) for row in changed], [(8, hour(0), 2.0, None)])
        equal(transaction.execute(reads.delete().where(reads.c.id > 7).returning(reads.c.kwh)).rowcount, 2)
        equal(transaction.execute(reads.delete().where(reads.c.ts > hour(5))).rowcount, 4)
    with db.connect() as connection:
        first = connection.execute(sa.select(reads).where(reads.c.ts.in_([hour(0), hour(1)])).order_by(reads.c.ts)).all()
        equal([tuple(row) for row in first], [(7, hour(0), 9.0, "0%"), (7, hour(1), 1.25, None)])
        counted = connection.execute(sa.select(sa.func.count(), sa.func.max(reads.c.kwh))).one()
        equal(tuple(counted), (6, 9.0))
        # A LIKE pattern with a different escape character.
        like = sa.select(sa.func.count()).where(reads.c.note.contains("0%", autoescape=True))
        equal(connection.execute(like).scalar(), 1)
    reflection(db, f"of_{driver}")
    tables.drop_all(db)


def reflection(db, name):
    found = sa.inspect(db)
    equal(found.get_schema_names()[-1], "temporary")
    equal(name in found.get_table_names(), True)
    equal("settings" in found.get_table_names(), False)
    equal((found.has_table(name), found.has_table("nothing")), (True, False))
    types = [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)]
    equal(types, [("id", "BIGINT", False), ("ts", "TIMESTAMP", False), ("kwh", "DOUBLE PRECISION", True), ("note", "TEXT", True)])
    equal(found.get_pk_constraint(name)["constrained_columns"], ["id", "ts"])
    for nothing in (found.get_indexes, found.get_foreign_keys, found.get_unique_constraints, found.get_check_constraints):
        equal(nothing(name), [])
    reflected = sa.MetaData()
    reflected.reflect(db)
    equal([column.name for column in reflected.tables[name].primary_key], ["id", "ts"])


def frames():
    db = engine("psycopg2")
    with db.begin() as transaction:
        transaction.execute(sa.text("CREATE TABLE frames (id BIGINT, ts TIMESTAMP, kwh DOUBLE, PRIMARY KEY (id, ts))"))
    times = pandas.date_range(start, periods=100, freq="h")
    frame = pandas.DataFrame({"id": 1, "ts": times.astype("datetime64[us]"), "kwh": [number / 2 for number in range(100)]})
    for method in [None, "multi"]:
        frame.to_sql("frames", db, index=False, if_exists="append", method=method)
    equal(pandas.read_sql("SELECT * FROM frames ORDER BY ts", db)["kwh"].tolist(), frame["kwh"].tolist())
    equal(pandas.read_sql_table("frames", db).shape, (100, 3))
    parts = pandas.read_sql("SELECT ts, kwh FROM frames", db.connect().execution_options(stream_results=True), chunksize=30)
    equal(sum(len(part) for part in parts), 100)


async def asynchronous():
    db = await asyncpg.connect(host="127.0.0.1", port=port, user="me", database="fleetdb")
    await db.execute("CREATE TABLE async (id BIGINT, ts TIMESTAMP, kwh DOUBLE, note TEXT, PRIMARY KEY (id, ts))")
    rows = [(number % 3, hour(number), number / 2, None) for number in range(30)]
    await db.executemany("INSERT INTO async VALUES ($1, $2, $3, $4)", rows)
    equal(await db.copy_records_to_table("async", records=[(9, hour(number), 1.0, "a, b") for number in range(100)]), "COPY 100")
    # An array as a single parameter.
    of_some = "SELECT count(*) FROM async WHERE id = ANY($1) AND NOT note = ANY($2)"
    equal(await db.fetchval("SELECT count(*) FROM async WHERE id = ANY($1)", [0, 2, 77]), 20)
    equal(await db.fetchval("SELECT count(*) FROM async WHERE id <> ALL($1)", [0, 2]), 110)
    equal(await db.fetchval("SELECT count(*) FROM async WHERE note = ANY($1)", ["a, b", 'q"', None]), 100)
    equal(await db.fetchval(of_some, [9], ["a, b"]), 0)
    equal(await db.fetchval("SELECT count(*) FROM async WHERE ts = ANY($1::timestamp[])", [hour(1), hour(2)]), 4)
    equal(await db.fetchval("SELECT count(*) FROM async WHERE id = 9 AND ts < $1::timestamp + $2 * INTERVAL '1 hour'", start, 3), 3)
    # Columns are named as in PostgreSQL.
    row = await db.fetchrow("SELECT count(*), max(kwh), min(kwh), max(kwh), 1 FROM async WHERE id = 1")
    equal((list(row.keys()), row["count"]), (["count", "max", "min", "max", "?column?"], 10))
    async with db.transaction():
        await db.execute("UPDATE async SET kwh = kwh + 1 WHERE id = 1")
        names = [record["id"] async for record in db.cursor("SELECT id FROM async WHERE id < 9")]
        equal(len(names), 30)
    prepared = await db.prepare("SELECT id, kwh FROM async WHERE id = $1 AND ts >= $2 ORDER BY ts")
    equal([attribute.name for attribute in prepared.get_attributes()], ["id", "kwh"])
    equal([tuple(record) for record in await prepared.fetch(1, hour(28))], [(1, 15.0)])
    hours = "SELECT generate_series FROM generate_series($1::timestamp, $2::timestamp, $3::interval)"
    equal(len(await db.fetch(hours, hour(0), hour(5), datetime.timedelta(hours=1))), 6)
    equal(await db.fetchval("SELECT count(*) FROM generate_series($1::int, $2::int) AS g WHERE g > $3", 1, 10, 4), 6)
    equal((await db.fetchrow("SELECT * FROM time_prev('async', $1::bigint, $2::timestamp)", 1, hour(3)))["ts"], hour(1))
    returned = "INSERT INTO async VALUES ($1, $2, $3, $4) RETURNING id, ts, kwh"
    equal(tuple(await db.fetchrow(returned, 50, hour(1), 0.5, "c")), (50, hour(1), 0.5))
    # Times with a time zone come back with a zone.
    await db.execute("CREATE TABLE zoned (id BIGINT, ts TIMESTAMPTZ, PRIMARY KEY (id, ts))")
    berlin = datetime.timezone(datetime.timedelta(hours=2))
    instants = [hour(number).replace(tzinfo=berlin) for number in range(5)]
    await db.executemany("INSERT INTO zoned VALUES ($1, $2)", [(1, instant) for instant in instants])
    await db.copy_records_to_table("zoned", records=[(2, instant) for instant in instants])
    found = await db.fetch("SELECT ts FROM zoned WHERE ts >= $1 AND ts = ANY($2) ORDER BY ts", instants[3], instants)
    equal([(record["ts"], record["ts"].utcoffset()) for record in found], [(instant, datetime.timedelta(0)) for instant in instants[3:] for _ in range(2)])
    local = "SELECT ts AT TIME ZONE 'Europe/Berlin' FROM zoned WHERE id = 1 ORDER BY ts LIMIT 1"
    equal(await db.fetchval(local), hour(-1))
    await db.close()
    # The statements a pool sends when a connection is returned.
    async with asyncpg.create_pool(host="127.0.0.1", port=port, user="me", database="fleetdb", min_size=1, max_size=1) as pool:
        for _ in range(3):
            equal(await pool.fetchval("SELECT 1"), 1)


def drivers():
    with psycopg2.connect(host="127.0.0.1", port=port, user="me", dbname="fleetdb") as db, db.cursor() as cursor:
        cursor.execute("CREATE TABLE other (id BIGINT, ts TIMESTAMP, kwh DOUBLE, PRIMARY KEY (id, ts))")
        values = [(number, start, 1.5) for number in range(1000)]
        psycopg2.extras.execute_values(cursor, "INSERT INTO other VALUES %s", values)
        cursor.execute("UPDATE other SET kwh = kwh * 2 WHERE id = ANY(%s)", ([1, 2, 3],))
        equal(cursor.rowcount, 3)
        cursor.execute("SELECT sum(kwh), count(*) FROM other")
        equal((cursor.fetchone(), [column.name for column in cursor.description]), ((1504.5, 1000), ["sum", "count"]))
        with db.cursor("part_by_part") as parts:
            parts.execute("SELECT id FROM other ORDER BY id")
            parts.scroll(10)
            equal((parts.fetchone(), parts.fetchmany(2)), ((10,), [(11,), (12,)]))
    db = pg8000.native.Connection("me", host="127.0.0.1", port=port, database="fleetdb")
    equal(db.run("SELECT id FROM other WHERE id < :most ORDER BY id", most=2), [[0], [1]])
    equal(db.run("SELECT count(*) FROM other WHERE ts > CAST('2026-02-01' AS TIMESTAMP) - CAST(:ago AS INTERVAL)", ago=datetime.timedelta(days=40)), [[1000]])
    db.close()


def tried_again(driver):
    """Sessions that increment counters, and retry after a conflict."""
    db, tables = engine(driver), sa.MetaData()
    counters = sa.Table(f"counters_{driver}", tables, sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False), sa.Column("v", sa.BigInteger))
    tables.create_all(db)
    with db.begin() as transaction:
        transaction.execute(counters.insert(), [{"id": 1, "v": 0}, {"id": 2, "v": 0}])

    def count():
        done = 0
        while done < 10:
            try:
                with orm.Session(db) as session, session.begin():
                    for id in [1, 2]:
                        session.execute(counters.update().where(counters.c.id == id).values(v=counters.c.v + 1))
                done += 1
            except sa.exc.DBAPIError as error:
                assert "another transaction has changed rows" in str(error.orig), error

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with db.connect() as connection:
        equal(connection.execute(sa.select(counters.c.v)).scalars().all(), [40, 40])


for driver in DRIVERS:
    toolkit(driver)
    tried_again(driver)
frames()
asyncio.run(asynchronous())
drivers()
print("all is well")
