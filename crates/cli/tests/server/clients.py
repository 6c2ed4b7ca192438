"""Runs what psycopg does, and the statements of tools that know PostgreSQL, and compares each answer with the expected one.

Arguments: the ports of the PostgreSQL wire and of HTTP.
"""
import datetime
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import psycopg
from common import connect, equal, fails, until_equal

http = int(sys.argv[2])
start = datetime.datetime(2026, 1, 1)


def hour(number):
    return start + datetime.timedelta(hours=number)


def drivers(db):
    db.execute("CREATE TABLE reads (id BIGINT, ts TIMESTAMP, kwh DOUBLE PRECISION, note TEXT, ok BOOLEAN, PRIMARY KEY (id, ts))")
    insert = "INSERT INTO reads VALUES (%s, %s, %s, %s, %s)"
    # More than five runs, after which the driver prepares the statement on the server.
    for number in range(20):
        db.execute(insert, (7, hour(number), 0.25 * number, None if number % 2 else f"n{number}", number % 3 == 0))
    first = [(7, hour(0), 0.0, "n0", True), (7, hour(1), 0.25, None, False)]
    equal(db.execute("SELECT * FROM reads ORDER BY ts LIMIT 2").fetchall(), first)
    equal(db.cursor(binary=True).execute("SELECT * FROM reads WHERE id = %s ORDER BY ts LIMIT 2", (7,)).fetchall(), first)
    total = "SELECT sum(kwh), count(*) FROM reads WHERE id = %s AND ts >= %s AND ts < %s"
    for hours in range(1, 12):
        equal(db.execute(total, (7, hour(0), hour(hours))).fetchone(), (0.125 * hours * (hours - 1), hours))

    def rows(key):
        return rows_seen(db, key)

    with db.transaction():
        db.execute("INSERT INTO reads (id, ts, kwh) VALUES (8, '2026-01-01', 1)")
        db.execute("INSERT INTO reads (id, ts, kwh) VALUES (%s, %s, %s)", (8, hour(1), 2.5))
    equal(rows(8), 2)

    def broken():
        with db.transaction():
            db.execute("INSERT INTO reads (id, ts, kwh) VALUES (9, '2026-01-01', 1)")
            db.execute("SELECT nope FROM reads")

    fails("42703", broken)
    equal(rows(9), 0)
    # psycopg begins a transaction by itself; CREATE TABLE takes effect at once.
    warnings = []
    with connect(autocommit=False) as other:
        other.add_notice_handler(lambda notice: warnings.append((notice.sqlstate, notice.message_primary)))
        other.execute("CREATE TABLE of_transaction (id BIGINT PRIMARY KEY)")
        other.execute("INSERT INTO of_transaction VALUES (1)")
        other.rollback()
        equal(other.execute("SELECT count(*) FROM of_transaction").fetchone(), (0,))
        other.execute("DROP TABLE of_transaction")
    equal(warnings, [("01000", f"{what} TABLE has taken effect: ROLLBACK will not undo it") for what in ["CREATE", "DROP"]])
    # Several INSERTs in one statement: the row count is that of the last one.
    several = "WITH one AS (INSERT INTO reads (id, ts, kwh) VALUES (%(id)s, %(ts)s, 1)) INSERT INTO reads (id, ts, kwh) VALUES (%(id)s, %(next)s, %(kwh)s), (%(id)s, '2027-01-01', 3)"
    for prepare in [False, True, True]:
        cursor = db.execute(several, {"id": 12, "ts": hour(0), "next": hour(1), "kwh": 2.5}, prepare=prepare)
        equal((cursor.statusmessage, rows(12)), ("INSERT 0 2", 3))
    fails("23502", db.execute, several, {"id": 13, "ts": hour(0), "next": None, "kwh": 2.5})
    equal(rows(13), 0)
    db.execute("DELETE FROM reads WHERE id = 12")
    returning(db, rows)
    table_functions(db)
    zones(db)
    texts(db)
    savepoints(db, rows)
    modes()
    settings()
    activity(db)
    named(db)
    with db.cursor().copy("COPY reads (id, ts, kwh) FROM STDIN") as copy:
        for number in range(1000):
            copy.write_row((10, hour(number), number / 2))
    equal(db.execute("SELECT count(*), sum(kwh) FROM reads WHERE id = 10").fetchone(), (1000, 249750.0))
    for options in ["", "WITH (FORMAT binary)"]:
        with db.cursor().copy(f"COPY (SELECT id, kwh, note FROM reads WHERE id = 10 ORDER BY ts) TO STDOUT {options}") as copy:
            copy.set_types(["int8", "float8", "text"])
            equal(list(copy.rows()), [(10, number / 2, None) for number in range(1000)])
    with db.cursor() as cursor:
        cursor.executemany("INSERT INTO reads (id, ts, kwh) VALUES (%s, %s, %s)", [(11, hour(number), 1.0) for number in range(1000)])
    equal(rows(11), 1000)
    equal(db.execute("UPDATE reads SET note = %s WHERE id = %s", ("x'y", 8)).statusmessage, "UPDATE 2")
    equal(db.execute("DELETE FROM reads WHERE id = %s AND ts > %s", (8, hour(0))).statusmessage, "DELETE 1")
    equal(db.execute("SELECT note FROM reads WHERE id = 8").fetchall(), [("x'y",)])
    # Two transactions increment the same row: the later COMMIT fails and can be retried.
    with connect(autocommit=False) as other:
        for attempt in range(2):
            other.execute("UPDATE reads SET kwh = kwh + 1 WHERE id = 8")
            if attempt == 0:
                db.execute("UPDATE reads SET kwh = 50 WHERE id = 8")
                fails("40001", other.commit)
                other.rollback()
        other.commit()
    equal(db.execute("SELECT kwh FROM reads WHERE id = 8").fetchall(), [(51.0,)])
    with db.pipeline():
        for number in range(5):
            db.execute("INSERT INTO reads (id, ts, kwh) VALUES (%s, %s, %s)", (12, hour(number), 1.0))
    equal(rows(12), 5)
    # Counters and rows in one pipeline: each statement sees those before it.
    db.execute("CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT, last DOUBLE)")
    add = "INSERT INTO counters (id, n) VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET n = counters.n + excluded.n"
    with db.pipeline():
        for number in range(20):
            added = db.execute(add, (number % 3,))
            db.execute("INSERT INTO reads (id, ts, kwh) VALUES (%s, %s, %s)", (13, hour(number), 1.0))
            updated = db.execute("UPDATE counters SET last = %s WHERE id = %s", (number / 2, number % 3))
            if number == 10:
                db.execute("INSERT INTO counters VALUES (0, 100, 0)")
        gone = db.execute("DELETE FROM counters WHERE id = %s", (2,))
    equal([added.rowcount, updated.rowcount, gone.rowcount], [1, 1, 1])
    equal(db.execute("SELECT * FROM counters ORDER BY id").fetchall(), [(0, 103, 9.0), (1, 7, 9.5)])
    equal(rows(13), 20)
    db.execute("DROP TABLE counters")
    fails("42601", db.execute, "SELEC 1")
    fails("42P01", db.execute, "SELECT * FROM nope")
    fails("22P02", db.execute, "INSERT INTO reads VALUES ('x', '2026-01-01', 1, '', true)")
    fails("23502", db.execute, "INSERT INTO reads VALUES (1, NULL, 1, '', true)")
    fails("23502", db.execute, "INSERT INTO reads SELECT 1, NULL, 2.5, '', true")
    cursors(db)
    tools(db)
    long = "SELECT count(*) FROM generate_series(1, 1000000000000)"
    db.execute("SET statement_timeout = 200")
    fails("57014", db.execute, long)
    db.execute("SET statement_timeout = 0")
    ended = threading.Event()

    def cancel():
        # If the statement has not begun yet, the next attempt cancels it.
        while not ended.wait(0.05):
            db.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    fails("57014", db.execute, long)
    ended.set()
    canceller.join()


def returning(db, rows):
    insert = "INSERT INTO reads (id, ts, kwh) VALUES (%s, %s, %s) RETURNING id, ts, kwh * 2 AS twice, note"
    for number, (prepare, binary) in enumerate([(False, False), (False, True), (True, False), (True, True)]):
        cursor = db.cursor(binary=binary).execute(insert, (14, hour(number), number / 2), prepare=prepare)
        equal((cursor.fetchall(), cursor.statusmessage), ([(14, hour(number), float(number), None)], "INSERT 0 1"))
        equal([column.name for column in cursor.description], ["id", "ts", "twice", "note"])
    cursor = db.execute("UPDATE reads SET kwh = kwh + %s WHERE id = %s RETURNING kwh", (1, 14))
    equal((sorted(cursor.fetchall()), cursor.statusmessage), ([(1.0,), (1.5,), (2.0,), (2.5,)], "UPDATE 4"))
    with db.cursor().copy("COPY (DELETE FROM reads WHERE id = 14 AND kwh > 2 RETURNING kwh) TO STDOUT") as copy:
        equal([float(row[0]) for row in copy.rows()], [2.5])
    cursor = db.execute("DELETE FROM reads AS r WHERE r.id = %s RETURNING *", (14,), prepare=True)
    equal((len(cursor.fetchall()), cursor.statusmessage, rows(14)), (3, "DELETE 3", 0))
    fails("42703", db.execute, "INSERT INTO reads (id, ts) VALUES (14, '2026-01-01') RETURNING nope")
    fails("23502", db.execute, "INSERT INTO reads (id, ts) VALUES (14, NULL) RETURNING id")
    # Nothing is written if the client could not read the returned rows; a COPY of a statement without rows is not run.
    db.execute("CREATE TABLE changing (id BIGINT PRIMARY KEY)")
    every = "INSERT INTO changing VALUES (%s) RETURNING *"
    equal(db.execute(every, (1,), prepare=True).fetchall(), [(1,)])
    # From another connection: after its own ALTER this driver prepares statements again.
    with connect() as other:
        other.execute("ALTER TABLE changing ADD COLUMN v DOUBLE")
    fails("0A000", db.execute, every, (2,))
    fails("0A000", db.execute, "COPY (INSERT INTO changing (id) VALUES (3)) TO STDOUT")
    fails("42P11", db.execute, "DECLARE c CURSOR WITH HOLD FOR INSERT INTO changing (id) VALUES (4) RETURNING id")
    equal(db.execute("SELECT id FROM changing").fetchall(), [(1,)])
    db.execute("DROP TABLE changing")


def table_functions(db):
    series = "SELECT generate_series FROM generate_series(%s, %s) ORDER BY 1"
    hours = "SELECT g, kwh FROM generate_series(%s, %s, INTERVAL '1 hour') AS g LEFT JOIN reads ON ts = g AND id = %s ORDER BY 1"
    for prepare in [False, True, True]:
        equal(db.execute(series, (3, 5), prepare=prepare).fetchall(), [(3,), (4,), (5,)])
        equal(db.execute(hours, (hour(-1), hour(1), 7), prepare=prepare).fetchall(), [(hour(-1), None), (hour(0), 0.0), (hour(1), 0.25)])
        row = db.execute("SELECT ts, kwh FROM time_next('reads', %s, %s)", (7, hour(3)), prepare=prepare, binary=prepare).fetchone()
        equal(row, (hour(3), 0.75))
    equal(db.execute("SELECT ts FROM time_next('reads', %s, %s)", (7, None)).fetchall(), [])
    fails("22P02", db.execute, "SELECT ts FROM time_next('reads', %s::text, %s)", ("none", hour(3)))


def zones(db):
    """Times of a column with a time zone come back with a zone, and are the instants that were written."""
    db.execute("CREATE TABLE zoned (id BIGINT, ts TIMESTAMPTZ, PRIMARY KEY (id, ts))")
    instants = [hour(number).replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))) for number in range(20)]
    for instant in instants:
        db.execute("INSERT INTO zoned VALUES (1, %s)", (instant,))
    for binary in [False, True]:
        found = db.cursor(binary=binary).execute("SELECT ts, now() - ts > INTERVAL '1 hour' FROM zoned WHERE ts >= %s ORDER BY ts", (instants[18],))
        equal([column.type_code for column in found.description], [1184, 16])
        equal(found.fetchall(), [(instants[18], True), (instants[19], True)])
    local = "SELECT ts AT TIME ZONE %s FROM zoned WHERE ts AT TIME ZONE %s < %s ORDER BY ts"
    equal(db.execute(local, ("Asia/Kolkata", "Europe/Berlin", hour(0))).fetchall(), [(hour(3.5),)])
    db.execute("DROP TABLE zoned")


def texts(db):
    """Numbers and times as text have PostgreSQL's form."""
    written = "SELECT 2.0::float8::float8 AS a, 1e15, 1e-5, 0.1::real, 'Infinity'::float8, TIMESTAMP '2026-01-01 00:00:00.50', TIMESTAMP '2026-01-01'"
    with db.cursor().copy(f"COPY ({written}) TO STDOUT") as copy:
        [row] = copy.rows()
        equal(row, ("2", "1e+15", "1e-05", "0.1", "Infinity", "2026-01-01 00:00:00.5", "2026-01-01 00:00:00"))


def savepoints(db, rows):
    def insert(key):
        db.execute("INSERT INTO reads (id, ts, kwh) VALUES (%s, '2026-01-01', 1)", (key,))

    def broken():
        with db.transaction():
            insert(21)
            db.execute("DECLARE inner_one CURSOR FOR SELECT 1")
            db.execute("SELECT nope FROM reads")

    # Nested transactions are savepoints.
    with db.transaction():
        insert(20)
        db.execute("DECLARE outer_one CURSOR FOR SELECT 1")
        fails("42703", broken)
        with db.transaction():
            insert(22)
            with db.transaction() as inmost:
                insert(23)
                raise psycopg.Rollback(inmost)
        equal(db.execute("SELECT name FROM pg_cursors").fetchall(), [("outer_one",)])
        fails("25P02", outside_of_what_is_there, db)
        # The transaction sees its own rows; other transactions do not.
        equal([rows(key) for key in range(20, 24)], [1, 0, 1, 0])
        with connect() as other:
            equal(other.execute("SELECT count(*) FROM reads WHERE id >= 20").fetchone(), (0,))
    equal([rows(key) for key in range(20, 24)], [1, 0, 1, 0])
    fails("25P01", db.execute, "SAVEPOINT a")


def outside_of_what_is_there(db):
    with db.transaction():
        try:
            db.execute("ROLLBACK TO nothing")
        except psycopg.errors.InvalidSavepointSpecification:
            pass
        db.execute("SELECT 1")


def cursors(db):
    numbers = "SELECT i, i > 2500 AS late FROM generate_series(1, 5000) AS t(i)"
    with db.transaction():
        for run in range(8):
            with db.cursor(name="part by part") as cursor:
                cursor.itersize = 7
                # Another query under the same cursor name, although the driver has prepared the FETCH.
                cursor.execute(numbers if run % 2 else f"{numbers} WHERE i > %s", None if run % 2 else (0,))
                equal([column.name for column in cursor.description], ["i", "late"])
                equal(cursor.fetchone(), (1, False))
                db.execute("SELECT 1")
                equal(cursor.fetchmany(2000)[-1], (2001, False))
                equal(sum(row[0] for row in cursor), 5000 * 5001 // 2 - 2001 * 2002 // 2)
                equal(cursor.fetchall(), [])
        db.execute("DECLARE a CURSOR FOR SELECT 1")
        equal(db.execute("FETCH ALL FROM a").statusmessage, "FETCH 1")
    fails("34000", db.execute, "FETCH 1 FROM a")
    fails("25P01", db.execute, "DECLARE a CURSOR FOR SELECT 1")
    equal(db.execute("SELECT * FROM pg_cursors").fetchall(), [])
    with db.cursor(name="wrong", withhold=True) as cursor:
        fails("42703", cursor.execute, "SELECT nope FROM reads")
    with db.transaction():
        held = db.cursor(name="held", withhold=True)
        held.execute(numbers)
    equal(len(held.fetchall()), 5000)
    fails("42P03", db.execute, 'DECLARE held CURSOR WITH HOLD FOR SELECT 1')
    fails("0A000", db.execute, "FETCH BACKWARD 1 FROM held")
    equal(db.execute("SELECT name, is_holdable FROM pg_cursors").fetchall(), [("held", True)])
    held.close()
    fails("34000", db.execute, "CLOSE held")
    # The time limit applies to each FETCH separately.
    db.execute("SET statement_timeout = 300")
    db.execute("DECLARE a CURSOR WITH HOLD FOR SELECT i FROM generate_series(1, 1000000000000) AS t(i)")
    time.sleep(0.4)
    equal(db.execute("FETCH 5000 FROM a").fetchall()[-1], (5000,))
    fails("57014", db.execute, "FETCH ALL FROM a")
    db.execute("SET statement_timeout = 0")
    db.execute("CLOSE ALL")
    fails("34000", db.execute, "FETCH 1 FROM a")


# Queries of Grafana's query editor and of DBeaver's table tree.
SEARCHED = """quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
        array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s)"""
OF_READS = "(SELECT oid FROM pg_class WHERE relname = 'reads')"


def tools(db):
    def gives(expected, sql):
        equal(db.execute(sql).fetchall(), expected)

    gives([(1600,)], "SELECT current_setting('server_version_num')::int/100 as version")
    gives([], "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")
    gives([("reads",)], f'''SELECT CASE WHEN {SEARCHED} THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
        FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', 'system')
        ORDER BY CASE WHEN {SEARCHED} THEN 0 ELSE 1 END, 1''')
    columns = [("id", "bigint"), ("ts", "timestamp without time zone"), ("kwh", "double precision"), ("note", "text"), ("ok", "boolean")]
    gives(columns, f'''SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
        WHERE CASE WHEN array_length(parse_ident('reads'),1) = 2
            THEN quote_ident(table_schema) = (parse_ident('reads'))[1] AND quote_ident(table_name) = (parse_ident('reads'))[2]
            ELSE quote_ident(table_name) = 'reads' AND {SEARCHED} END''')
    # Grafana's macros: $__timeFilter, $__timeGroup and $__timeEpoch.
    day = "ts BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T23:59:59.999Z'"
    gives([(5.0,)], f'SELECT sum(kwh) AS "time" FROM reads WHERE id = 12 AND {day}')
    begin = int(hour(0).replace(tzinfo=datetime.timezone.utc).timestamp())
    gives([(begin, 2.0), (begin + 7200, 2.0), (begin + 14400, 1.0)], f'''SELECT floor(extract(epoch from ts)/7200)*7200 AS "time", sum(kwh)
        FROM reads WHERE id = 12 AND {day} GROUP BY 1 ORDER BY 1''')

    gives([("reads_pkey", "p", "{1,2}", "PRIMARY KEY (id, ts)", "reads")], f'''SELECT c.conname, c.contype, c.conkey, pg_get_constraintdef(c.oid), t.relname as tabrelname
        FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass
        WHERE c.conrelid={OF_READS} ORDER BY c.oid''')
    gives([("1 2", "reads_pkey", "reads", "CREATE UNIQUE INDEX reads_pkey ON public.reads USING btree (id, ts)")], f'''SELECT i.indkey as keys,c.relname,tc.relname as tabrelname,
        pg_get_indexdef(i.indexrelid)
        FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE i.indrelid={OF_READS} ORDER BY tabrelname, c.relname''')
    gives([(name,) for name, _ in columns], f'''SELECT a.attname FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
        LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
        WHERE NOT a.attisdropped AND c.oid={OF_READS} ORDER BY a.attnum''')
    gives([("id",), ("ts",)], '''SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
        WHERE i.indrelid = 'reads'::regclass AND i.indisprimary''')


def modes():
    """What a transaction sees, and that a read-only one writes nothing."""
    insert = "INSERT INTO reads (id, ts, kwh) VALUES (30, %s, 1)"
    with connect() as db, connect() as other:

        def written(how):
            with db.transaction():
                db.execute("SELECT 1")
                how()

        def copied():
            with db.cursor().copy("COPY reads (id, ts, kwh) FROM STDIN") as copy:
                copy.write_row((30, hour(0), 1))

        db.read_only = True
        for prepare in [False, True, True]:
            fails("25006", written, lambda: db.execute(insert, (hour(0),), prepare=prepare))
        fails("25006", written, copied)
        fails("25006", written, lambda: db.execute("UPDATE reads SET kwh = 1"))
        fails("25006", written, lambda: db.execute("DROP TABLE reads"))
        db.read_only = None
        equal(rows_seen(other, 30), 0)
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for number in range(8):
            with db.transaction():
                counts = []
                for insertion in [None, (other, 2 * number), (db, 2 * number + 1)]:
                    if insertion:
                        insertion[0].execute(insert, (hour(insertion[1]),))
                    counts.append(db.execute("SELECT count(*) FROM reads WHERE id = %s", (30,)).fetchone()[0])
                equal(counts, [2 * number, 2 * number, 2 * number + 1])
            equal(rows_seen(other, 30), 2 * number + 2)
        # The driver uses a syntax that sqlparser does not know.
        db.isolation_level, db.read_only, db.deferrable = psycopg.IsolationLevel.SERIALIZABLE, True, True
        notices = []
        db.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        with db.transaction():
            equal(db.execute("SHOW transaction_isolation").fetchone(), ("repeatable read",))
        assert notices[0].startswith("SERIALIZABLE is REPEATABLE READ here"), notices
        notices.clear()
        for statement in ["SET NAMES 'latin1'", "SET LOCAL statement_timeout = 1", "COMMIT"]:
            db.execute(statement)
        equal(["UTF-8" in notices[0], "transaction" in notices[1], notices[2]], [True, True, "there is no transaction in progress"])
    with connect() as db:
        db.execute("DELETE FROM reads WHERE id = 30")


def settings():
    """Settings sent with the connection apply, and RESET returns to them."""
    long = "SELECT count(*) FROM generate_series(1, 1000000000000)"
    with connect(options="-c statement_timeout=200 -c default_transaction_read_only=on", application_name="agent") as db:
        fails("57014", db.execute, long)
        fails("25006", db.execute, "INSERT INTO reads (id, ts, kwh) VALUES (31, '2026-01-01', 1)")
        fails("25006", db.execute, "INSERT INTO reads (id, ts, kwh) VALUES (31, %s, 1)", (hour(0),))
        db.execute("SET statement_timeout = '1h'")
        own = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        equal(db.execute(own).fetchone(), ("agent",))
        for back in ["RESET ALL", "DISCARD ALL", "SET statement_timeout TO DEFAULT", "SELECT set_config('statement_timeout', NULL, false)"]:
            db.execute("SET statement_timeout = '1h'")
            equal(db.execute("SHOW statement_timeout").fetchone(), ("1h",))
            db.execute(back)
            equal(db.execute("SELECT current_setting('statement_timeout')").fetchone(), ("200ms",))
        with db.transaction():
            db.execute("SET LOCAL statement_timeout = '2h'")
            equal(db.execute("SHOW statement_timeout", prepare=True).fetchone(), ("2h",))
        equal(db.execute("SHOW statement_timeout", prepare=True).fetchone(), ("200ms",))
        server_version = db.info.parameter_status("server_version")
        assert "FleetDB" in server_version, server_version
    try:
        connect(options="-c statement_timeout=soon")
    except psycopg.OperationalError as error:
        assert "statement_timeout = 'soon'" in str(error), error
    else:
        raise AssertionError("a wrong setting is refused")


def codes(db):
    """The codes of a connection's notices from now on. libpq reports an error that arrives between statements as a notice."""
    told = []
    db.add_notice_handler(lambda notice: told.append(notice.sqlstate))
    return told


def is_ended(db, told, code):
    """Fails unless the server has ended the connection with this code."""
    try:
        db.execute("SELECT 1")
        raise AssertionError("the connection goes on")
    except psycopg.Error as error:
        told.append(error.sqlstate)
    equal([code for code in told if code], [code])


def activity(db):
    """Which clients are connected, what they do, and how that is ended."""
    long = "SELECT count(*) FROM generate_series(1, 1000000000000)"
    with connect(application_name="meter") as other:
        pid = other.info.backend_pid
        equal(other.execute("SELECT pg_backend_pid(), current_user").fetchone(), (pid, "me"))
        state = f"SELECT application_name, usename, client_addr, state, query FROM pg_stat_activity WHERE pid = {pid}"

        def until(doing, query):
            until_equal(db, state, ("meter", "me", "127.0.0.1", doing, query))

        until("idle", "SELECT pg_backend_pid(), current_user")
        other.execute("BEGIN")
        until("idle in transaction", "BEGIN")
        since = "SELECT xact_start >= backend_start AND xact_start <= now() FROM pg_stat_activity WHERE pid = %s"
        equal(db.execute(since, (pid,)).fetchone(), (True,))
        fails("42P01", other.execute, "SELECT * FROM nope")
        until("idle in transaction (aborted)", "SELECT * FROM nope")
        other.execute("ROLLBACK")
        asking = threading.Thread(target=fails, args=("57014", other.execute, long))
        asking.start()
        until("active", long)
        equal(db.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone(), (True,))
        asking.join()
        until("idle", long)
        equal(db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'meter'").fetchall(), [(True,)])
        fails("57P01", other.execute, "SELECT 1")
    gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'meter'"
    until_equal(db, gone, (0,))
    equal(db.execute("SELECT pg_cancel_backend(%s), pg_terminate_backend(-7)", (pid,)).fetchone(), (False, False))
    # A busy connection can be ended as well.
    with connect(application_name="meter") as other:
        told = codes(other)
        asking = threading.Thread(target=fails, args=("57014", other.execute, long))
        asking.start()
        until_equal(db, "SELECT query FROM pg_stat_activity WHERE application_name = 'meter'", (long,))
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'meter'")
        asking.join()
        is_ended(other, told, "57P01")
    # Clients that are idle for too long.
    for statements, code in [(["SET idle_session_timeout = 1"], "57P05"), (["SET idle_in_transaction_session_timeout = 1", "BEGIN"], "25P03")]:
        with connect(application_name="meter") as other:
            told = codes(other)
            for statement in statements:
                other.execute(statement)
            until_equal(db, gone, (0,))
            is_ended(other, told, code)
    # Statements over HTTP are also listed and can be cancelled.
    url = f"http://127.0.0.1:{http}/api/v1/sql?q={urllib.parse.quote(long)}"
    answers = []

    def ask():
        try:
            answers.append(urllib.request.urlopen(urllib.request.Request(url, headers={"User-Agent": "script/1"})))
        except urllib.error.HTTPError as error:
            answers.append((error.code, "cancelled" in error.read().decode()))

    asking = threading.Thread(target=ask)
    asking.start()
    of_http = "FROM pg_stat_activity WHERE application_name = 'script/1'"
    until_equal(db, f"SELECT usename, state, query {of_http}", ("anybody", "active", long))
    equal(db.execute(f"SELECT pg_cancel_backend(pid) {of_http}").fetchone(), (True,))
    asking.join()
    equal(answers, [(503, True)])
    until_equal(db, f"SELECT count(*) {of_http}", (0,))


def named(db):
    """Named statements, as text and prepared again by the driver."""
    db.execute("PREPARE put (bigint, timestamp, float8) AS INSERT INTO reads (id, ts, kwh) VALUES ($1, $2, $3)")
    db.execute("PREPARE get AS SELECT ts, kwh FROM reads WHERE id = $1")
    for prepare in [False, True, True]:
        equal(db.execute("EXECUTE put(32, '2026-01-01 00:00', 1 + 0.5)", prepare=prepare).statusmessage, "INSERT 0 1")
        equal(db.execute("EXECUTE get(32)", prepare=prepare).fetchall(), [(hour(0), 1.5)])
    fails("42P05", db.execute, "PREPARE get AS SELECT 1")
    fails("42601", db.execute, "EXECUTE get(1, 2)")
    db.execute("DEALLOCATE get")
    # It fails although the driver has prepared it.
    fails("26000", db.execute, "EXECUTE get(32)")
    db.execute("PREPARE get AS SELECT $1 + 1")
    fails("0A000", db.execute, "EXECUTE get(32)")
    equal(db.execute("EXECUTE get(31)").fetchone(), (32,))
    # After a ROLLBACK the driver discards its prepared statements.
    with db.transaction() as transaction:
        db.execute("EXECUTE put(32, '2026-01-02', 2)")
        equal(rows_seen(db, 32), 2)
        raise psycopg.Rollback(transaction)
    equal(rows_seen(db, 32), 1)
    db.execute("DELETE FROM reads WHERE id = 32")


def tried_again():
    """Counters in conflicting transactions, retried until they are written; and UUIDs."""
    key = uuid.uuid4()
    with connect() as db:
        db.execute("CREATE TABLE counters (id TEXT PRIMARY KEY, v BIGINT)")
        for name in [key, "other"]:
            db.execute("INSERT INTO counters VALUES (%s, 0)", (name,))
        equal(db.cursor(binary=True).execute("SELECT id FROM counters WHERE id = %b", (key,)).fetchall(), [(str(key),)])
    refused = []

    def count():
        with connect() as db:
            done = 0
            while done < 20:
                try:
                    with db.transaction():
                        for name in [key, "other"]:
                            db.execute("UPDATE counters SET v = v + 1 WHERE id = %s", (name,))
                    done += 1
                except psycopg.errors.SerializationFailure:
                    refused.append(1)
                equal(db.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect() as db:
        equal(db.execute("SELECT v FROM counters").fetchall(), [(80,), (80,)])


def rows_seen(db, key):
    return db.execute("SELECT count(*) FROM reads WHERE id = %s", (key,)).fetchone()[0]


with connect() as connection:
    drivers(connection)
tried_again()
print("all is well")
