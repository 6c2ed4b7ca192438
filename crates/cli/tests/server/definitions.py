"""Defaults, numbers, checks and views with psycopg: prepared, by COPY and in transactions."""
import sys

import psycopg

port = sys.argv[1]
warnings = []


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def refused(code, statement, values=()):
    try:
        db.execute(statement, values)
    except psycopg.Error as error:
        equal(error.sqlstate, code)
    else:
        raise AssertionError(f"{statement} was taken")


with psycopg.connect(host="127.0.0.1", port=port, user="me", autocommit=True) as db:
    db.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    db.execute("CREATE TABLE sites (name TEXT PRIMARY KEY)")
    db.execute(
        "CREATE TABLE devices (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL DEFAULT 'new', n INT CHECK (n > 0),"
        " made TIMESTAMPTZ DEFAULT now(), site TEXT REFERENCES sites)"
    )
    equal(warnings, ["foreign keys are not enforced: rows may name rows of sites that do not exist"])

    # Prepared, many at once, and with RETURNING
    for n in range(1, 8):
        db.execute("INSERT INTO devices (n) VALUES (%s)", (n,), prepare=True)
    with db.cursor() as cursor:
        cursor.executemany("INSERT INTO devices (name, n) VALUES (%s, %s)", [(f"d{n}", n) for n in range(10, 13)])
        equal(cursor.rowcount, 3)
    equal(db.execute("INSERT INTO devices (n) VALUES (99) RETURNING id, name").fetchall(), [(11, "new")])
    equal(db.execute("SELECT min(id), max(id), count(DISTINCT id), count(made) FROM devices").fetchone(), (1, 11, 11, 11))

    # Refused, prepared or not, in a batch as well
    refused("23514", "INSERT INTO devices (n) VALUES (%s)", (0,))
    refused("23514", "UPDATE devices SET n = n - 5 WHERE id = %s", (1,))
    refused("23502", "INSERT INTO devices (name) VALUES (%s)", (None,))
    refused("42P07", "CREATE VIEW devices AS SELECT 1 AS one")

    # COPY gives defaults to the columns that it does not name.
    with db.cursor() as cursor:
        with cursor.copy("COPY devices (n, name) FROM STDIN") as copy:
            copy.write_row((50, "copied"))
            copy.write_row((51, "copied"))
        with cursor.copy("COPY devices (n) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4"])
            copy.write_row((52,))
    query = "SELECT id > 11, name, made IS NOT NULL FROM devices WHERE n BETWEEN 50 AND 52 ORDER BY n"
    equal(db.execute(query).fetchall(), [(True, "copied", True), (True, "copied", True), (True, "new", True)])

    # A prepared query follows a view that is replaced, and a default that is changed.
    db.execute("CREATE VIEW small AS SELECT id, n FROM devices WHERE n < 5")
    for _ in range(3):
        equal(db.execute("SELECT count(*) FROM small WHERE n >= %s", (2,), prepare=True).fetchone(), (3,))
    db.execute("CREATE OR REPLACE VIEW small AS SELECT id, n FROM devices WHERE n < 4")
    for _ in range(2):
        equal(db.execute("SELECT count(*) FROM small WHERE n >= %s", (2,), prepare=True).fetchone(), (2,))
    db.execute("ALTER TABLE devices ALTER COLUMN name SET DEFAULT 'newer'")
    db.execute("INSERT INTO devices (n) VALUES (%s)", (1000,), prepare=True)
    equal(db.execute("SELECT name FROM devices WHERE n = 1000").fetchone(), ("newer",))

    # In a transaction a view shows its rows; rolled back, only numbers are gone.
    with db.transaction(force_rollback=True):
        db.execute("INSERT INTO devices (n) VALUES (1)")
        equal(db.execute("SELECT count(*) FROM small WHERE n = 1").fetchone(), (2,))
    equal(db.execute("SELECT count(*) FROM small WHERE n = 1").fetchone(), (1,))

    # The catalog
    names = db.execute("SELECT conname FROM pg_constraint WHERE conrelid = 'devices'::regclass ORDER BY 1").fetchall()
    equal(names, [("devices_n_check",), ("devices_pkey",), ("devices_site_fkey",)])
    equal(db.execute("SELECT relkind FROM pg_class WHERE relname = 'small'").fetchone(), ("v",))
    db.execute("DROP VIEW small")
    refused("42P01", "SELECT * FROM small")
print("all is well")
