"""A session's time zone with psycopg: chosen with the connection or by SET, and reported to the driver.

Instants are sent and received as text and in binary.
"""
import datetime as dt
import sys
from zoneinfo import ZoneInfo

import psycopg

port = sys.argv[1]
vienna, new_york = ZoneInfo("Europe/Vienna"), ZoneInfo("America/New_York")


def connect(zone=None):
    options = f"-c timezone={zone}" if zone else None
    return psycopg.connect(host="127.0.0.1", port=port, user="me", autocommit=True, options=options)


def one(db, query, values=(), binary=False):
    return db.execute(query, values, binary=binary).fetchone()


with connect() as db:
    assert db.info.parameter_status("TimeZone") == "UTC"
    db.execute("CREATE TABLE zoned (id BIGINT, ts TIMESTAMPTZ, at TIMESTAMP, PRIMARY KEY (id, ts))")

    # A time without a zone keeps its time of day when it is compared with a date.
    day = dt.datetime(2026, 7, 1)
    for kind in ("s", "b"):
        query = f"SELECT d::date = %{kind}, d::date < %{kind}, d::date IN (%{kind}) FROM (SELECT %{kind}::timestamp AS d) AS days"
        for time, expected in ((day, (True, False, True)), (day.replace(hour=10), (False, True, False))):
            assert one(db, query, (time, time, time, day)) == expected, (kind, time)

noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc)
with connect("Europe/Vienna") as db:
    assert db.info.parameter_status("TimeZone") == "Europe/Vienna"
    assert db.info.timezone.key == "Europe/Vienna"
    # An instant stays the same. A time without a zone, in a column with one, is local time.
    insert = "INSERT INTO zoned VALUES (%s, %s, %s)"
    db.execute(insert, (1, noon, noon))
    db.execute(insert, (2, dt.datetime(2026, 7, 1, 14), dt.datetime(2026, 7, 1, 12)))
    db.execute("INSERT INTO zoned VALUES (%b, %b, %b)", (3, noon, noon))
    db.execute("INSERT INTO zoned VALUES (%b, %b, %b)", (4, dt.datetime(2026, 7, 1, 14), dt.datetime(2026, 7, 1, 12)))
    for id in range(1, 5):
        for binary in (False, True):
            row = one(db, "SELECT ts, at FROM zoned WHERE id = %s", (id,), binary)
            assert row == (noon, dt.datetime(2026, 7, 1, 12)), (id, binary, row)
            assert row[0].utcoffset() == dt.timedelta(hours=2), row
    for query in ("SELECT count(*) FROM zoned WHERE ts = %s", "SELECT count(*) FROM zoned WHERE ts = %b"):
        for _ in range(7):  # psycopg prepares a query that runs often.
            assert one(db, query, (noon,)) == (4,)
            assert one(db, query, (noon.astimezone(new_york),)) == (4,)
            assert one(db, query, (dt.datetime(2026, 7, 1, 14),)) == (4,), query
            assert one(db, query, (dt.datetime(2026, 7, 1, 12),)) == (0,)
        db.execute("SET TIME ZONE 'UTC'")
        assert db.info.parameter_status("TimeZone") == "UTC"
        assert one(db, query, (dt.datetime(2026, 7, 1, 12),)) == (4,)
        assert one(db, query, (dt.datetime(2026, 7, 1, 14),)) == (0,)
        db.execute("RESET timezone")
        assert db.info.parameter_status("TimeZone") == "Europe/Vienna"
    # A parameter that has a zone and is cast has the date and time of the session's clocks.
    late = dt.datetime(2026, 6, 30, 22, 30, tzinfo=dt.timezone.utc)
    for kind in ("s", "b"):
        query = f"SELECT %{kind}::date, %{kind}::timestamp, %{kind}::time, %{kind}::timestamptz"
        local = dt.datetime(2026, 7, 1, 0, 30)
        assert one(db, query, (late,) * 4) == (local.date(), local, local.time(), late), kind
        assert one(db, f"SELECT %{kind}::text, ARRAY[%{kind}::date]", (late,) * 2) == (
            "2026-07-01 00:30:00+02", [local.date()]), kind
        assert one(db, f"SELECT %{kind}::date[], %{kind}::timestamptz[]", ([late], [late])) == ([local.date()], [late])
        query = f"SELECT count(*) FROM zoned WHERE ts::date = %{kind}::date AND id < 5"
        assert one(db, query, (dt.datetime(2026, 6, 30, 22, tzinfo=dt.timezone.utc),)) == (4,), kind
        # A TIMESTAMP column holds UTC.
        query = f"SELECT count(*) FROM zoned WHERE at = %{kind} AND id < 5"
        assert one(db, query, (noon,)) == (4,), kind
        assert len(db.execute(f"SELECT * FROM generate_series(%{kind}::timestamp, %{kind}::timestamp, '1 hour')",
                              (noon, noon)).fetchall()) == 1
    db.execute("CREATE TABLE days (id BIGINT PRIMARY KEY, day DATE)")
    for id, insert in enumerate(["VALUES (%s, %s)", "VALUES (%b, %b)", "VALUES (%s, %s::date)", "SELECT %b, %b::date"]):
        db.execute(f"INSERT INTO days {insert}", (id, late))
    assert db.execute("SELECT DISTINCT day FROM days").fetchall() == [(dt.date(2026, 7, 1),)]
    db.execute("UPDATE days SET day = %b::date WHERE id = 0", (noon - dt.timedelta(days=1),))
    assert one(db, "SELECT day FROM days WHERE id = 0") == (dt.date(2026, 6, 30),)
    # A prepared statement that contains a time as text.
    text = "INSERT INTO zoned VALUES (%s, '2026-12-01 12:00', NULL)"
    db.execute(text, (10,), prepare=True)
    db.execute("SET TIME ZONE 'America/New_York'")
    db.execute(text, (11,), prepare=True)
    ask = "SELECT ts FROM zoned WHERE id = %s"
    assert one(db, ask, (10,))[0] == dt.datetime(2026, 12, 1, 12, tzinfo=vienna)
    assert one(db, ask, (11,))[0] == dt.datetime(2026, 12, 1, 12, tzinfo=new_york)
    # SET LOCAL in a transaction. ROLLBACK undoes it.
    db.autocommit = False
    db.execute("SET LOCAL timezone = 'Asia/Tokyo'")
    assert db.info.parameter_status("TimeZone") == "Asia/Tokyo"
    assert one(db, ask, (10,))[0].utcoffset() == dt.timedelta(hours=9)
    db.rollback()
    assert db.info.parameter_status("TimeZone") == "America/New_York"
    db.autocommit = True
    try:
        db.execute("SET TIME ZONE 'Mars/Olympus'")
        raise SystemExit("there is no such zone")
    except psycopg.errors.InvalidParameterValue as error:
        assert str(error).startswith('invalid value for parameter "TimeZone": "Mars/Olympus"'), error
    # As in PostgreSQL, an error undoes what a text of several statements has set.
    def zone_after(text):
        db.pgconn.exec_(text.encode())
        assert db.info.parameter_status("TimeZone") == one(db, "SELECT current_setting('timezone')")[0], text
        return db.info.parameter_status("TimeZone")

    assert zone_after("SET timezone = 'Asia/Tokyo'; SELECT 1/0") == "America/New_York"
    assert zone_after("SET timezone = 'Asia/Tokyo'; SELECT no_such_column") == "America/New_York"
    db.pgconn.exec_(b"SET timezone = 'Asia/Tokyo'; BEGIN; SELECT 1/0")
    assert zone_after("ROLLBACK") == "America/New_York"
    assert zone_after("BEGIN; SET timezone = 'Asia/Tokyo'; COMMIT; SELECT 1/0") == "Asia/Tokyo"
    assert zone_after("SET timezone = 'Asia/Kolkata'; SELECT 1") == "Asia/Kolkata"
    assert zone_after("SET timezone = 'America/New_York'") == "America/New_York"
    # COPY in both directions uses the session's zone.
    with db.cursor().copy("COPY zoned FROM STDIN") as copy:
        copy.write_row((20, "2026-07-01 08:00", "2026-07-01 12:00"))
    with db.cursor().copy("COPY zoned FROM STDIN (FORMAT csv)") as copy:
        copy.write("21,2026-07-01 08:00,2026-07-01 12:00\n22,2026-07-01 12:00Z,\n")
    with db.cursor().copy("COPY (SELECT ts, at FROM zoned WHERE id >= 20 ORDER BY id) TO STDOUT") as copy:
        copied = b"".join(copy)
    shown = b"2026-07-01 08:00:00-04\t2026-07-01 12:00:00\n"
    assert copied == shown * 2 + b"2026-07-01 08:00:00-04\t\\N\n", copied
    with db.cursor().copy("COPY (SELECT ts FROM zoned WHERE id = 20) TO STDOUT (FORMAT csv)") as copy:
        copied = b"".join(copy)
    assert copied == b"2026-07-01 08:00:00-04\n", copied

# Bounds out of range select everything, also as parameters. Writing such a time is an error.
for zone in (None, "Asia/Kolkata"):
    with connect(zone) as db:
        far = dt.datetime(9999, 12, 31), dt.datetime(9999, 12, 31, tzinfo=dt.timezone.utc), dt.date(9999, 12, 31), "infinity"
        early = dt.datetime(1, 1, 1), dt.datetime(1, 1, 2, tzinfo=dt.timezone.utc), dt.date(1, 1, 1), "-infinity"
        everything = one(db, "SELECT count(*) FROM zoned")
        for column in ("ts", "at"):
            for kind in ("s", "b"):
                query = f"SELECT count(*) FROM zoned WHERE ts < %{kind} AND {column} >= %{kind}"
                known = f"SELECT count(*) FROM zoned WHERE {column} IS NOT NULL"
                for until, since in zip(far, early):
                    assert one(db, query, (until, since)) == one(db, known), (zone, query, until, since)
                    assert one(db, query, (since, until)) == (0,), (zone, query, until, since)
            for value in far[:2] + early[:2]:
                for kind in ("s", "b"):
                    try:
                        db.execute(f"INSERT INTO zoned (id, {column}, ts) VALUES (30, %{kind}, now())"
                                   if column == "at" else f"INSERT INTO zoned (id, ts) VALUES (30, %{kind})", (value,))
                        raise SystemExit(f"{value} was taken")
                    except psycopg.errors.DatetimeFieldOverflow:
                        pass
        assert one(db, "SELECT count(*) FROM zoned") == everything
        with db.transaction(force_rollback=True):
            assert db.execute("DELETE FROM zoned WHERE ts < %s", (far[1],)).rowcount == everything[0]

print("all is well")
