"""UUIDs, times of day, JSON and arrays with psycopg, as text and in binary, by INSERT and by COPY."""
import datetime
import sys
import uuid

import psycopg
from psycopg.types.json import Json, Jsonb

con = psycopg.connect(host="127.0.0.1", port=sys.argv[1], user="me", autocommit=True)
con.execute("CREATE TABLE devices (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), opens TIME, doc JSONB, raw JSON, owner UUID)")
a, b = uuid.UUID(int=1), uuid.uuid4()
opens = datetime.time(8, 30, 15, 250000)
doc = {"b": [1, 2.5, None], "a": {"c": "x"}}
for binary in (False, True):
    cur = con.cursor(binary=binary)
    con.execute("TRUNCATE devices")
    for key in (a, b):
        con.execute("INSERT INTO devices VALUES (%s, %s, %s, %s, %s)", (key, opens, Jsonb(doc), Json(doc), b))
        con.execute("INSERT INTO devices VALUES (%b, %b, %b, %b, %b) ON CONFLICT (id) DO UPDATE SET opens = excluded.opens, doc = excluded.doc", (key, opens, Jsonb(doc), Json(doc), b))
    rows = cur.execute("SELECT * FROM devices ORDER BY id").fetchall()
    assert rows == [(a, opens, doc, doc, b), (b, opens, doc, doc, b)], rows
    types = [d.type_code for d in cur.description]
    assert types == [2950, 1083, 3802, 114, 2950], types
    for placeholder in ("%s", "%b", "%t"):
        assert cur.execute(f"SELECT id FROM devices WHERE id = {placeholder}", (b,)).fetchall() == [(b,)]
        assert cur.execute(f"SELECT opens FROM devices WHERE opens = {placeholder}", (opens,)).fetchall() == [(opens,)] * 2
        assert cur.execute(f"SELECT id FROM devices WHERE id = ANY({placeholder}) ORDER BY id", ([a, b],)).fetchall() == [(a,), (b,)]
        assert cur.execute(f"SELECT {placeholder}::uuid", (a,)).fetchone() == (a,)
        assert cur.execute(f"UPDATE devices SET owner = {placeholder} WHERE id = {placeholder}", (a, b)).rowcount == 1
        assert cur.execute(f"SELECT owner FROM devices WHERE id = {placeholder}", (b,)).fetchone() == (a,)
    assert cur.execute("SELECT array_agg(id ORDER BY id) FROM devices").fetchone() == ([a, b],)
    assert cur.execute("SELECT id::text FROM devices WHERE id = %s", (a,)).fetchone() == (str(a),)
    new = cur.execute("INSERT INTO devices (opens) VALUES (%s) RETURNING id, opens", (opens,)).fetchone()
    assert isinstance(new[0], uuid.UUID) and new[1] == opens, new
    assert cur.execute("DELETE FROM devices WHERE id = %s", (new[0],)).rowcount == 1
    with cur.copy("COPY devices (id, opens, doc) FROM STDIN" + (" (FORMAT BINARY)" if binary else "")) as copy:
        if binary:
            copy.set_types(["uuid", "time", "jsonb"])
        copy.write_row((uuid.UUID(int=7), opens, Jsonb(doc)))
    assert cur.execute("SELECT opens, doc FROM devices WHERE id = %s", (uuid.UUID(int=7),)).fetchone() == (opens, doc)
    text = cur.execute("SELECT doc::text FROM devices WHERE id = %s", (uuid.UUID(int=7),)).fetchone()
    assert text == ('{"a": {"c": "x"}, "b": [1, 2.5, null]}',), text
con.execute("CREATE TABLE bursts (id INT PRIMARY KEY, v DOUBLE PRECISION[], n SMALLINT[], w TEXT[], b BOOLEAN[])")
burst = ([1.5, None, -2.0] + [i / 8 for i in range(1000)], [-1, 32767, None], ["a", "", 'b "c"\\,{}', None, "NULL"], [True, False, None])
for binary in (False, True):
    cur = con.cursor(binary=binary)
    con.execute("TRUNCATE bursts")
    con.execute("INSERT INTO bursts VALUES (1, %s, %s, %s, %s)", burst)
    con.execute("INSERT INTO bursts VALUES (2, %b, %b, %b, %b)", burst)
    con.execute("INSERT INTO bursts VALUES (3, %t, %t, %t, %t) ON CONFLICT (id) DO UPDATE SET v = excluded.v", burst)
    con.execute("INSERT INTO bursts VALUES (4, %s, %s, %s, %s)", ([], [], [], None))
    con.execute("UPDATE bursts SET v = %s WHERE id = 3", (burst[0],))
    with cur.copy("COPY bursts FROM STDIN" + (" (FORMAT BINARY)" if binary else "")) as copy:
        if binary:
            copy.set_types(["int4", "float8[]", "int2[]", "text[]", "bool[]"])
        copy.write_row((5, *burst))
    rows = cur.execute("SELECT * FROM bursts ORDER BY id").fetchall()
    assert rows == [(1, *burst), (2, *burst), (3, *burst), (4, [], [], [], None), (5, *burst)], rows
    types = [d.type_code for d in cur.description]
    assert types == [23, 1022, 1005, 1009, 1000], types
    found = cur.execute("SELECT id FROM bursts WHERE n = %s AND %s = ANY(w) ORDER BY id", (burst[1], "NULL")).fetchall()
    assert found == [(1,), (2,), (3,), (5,)], found
for wrong, state in (("SELECT 1 FROM devices WHERE id = 'x'", "22P02"), ("INSERT INTO devices (opens) VALUES ('24:30')", "22008"),
                     ("INSERT INTO devices (doc) VALUES ('{')", "22P02"), ("INSERT INTO devices (owner) VALUES ('zz')", "22P02"),
                     ("INSERT INTO bursts (id, v) VALUES (9, '{x}')", "22P02"), ("INSERT INTO bursts (id, n) VALUES (9, '{40000}')", "22003"),
                     ("INSERT INTO bursts (id, v) VALUES (9, '{1')", "22P02")):
    try:
        con.execute(wrong)
        raise SystemExit(f"{wrong} is taken")
    except psycopg.Error as error:
        assert error.sqlstate == state, (wrong, error.sqlstate, str(error))
rows = con.execute("SELECT udt_name FROM information_schema.columns WHERE table_name = 'devices' ORDER BY ordinal_position")
assert [name for (name,) in rows][:2] == ["uuid", "time"]
con.execute("CREATE TABLE bills (id INT PRIMARY KEY, amount NUMERIC(9, 2), day DATE)")
columns = con.execute("""SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, a.attlen FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relname IN ('devices', 'bursts', 'bills') AND a.attnum > 0 ORDER BY c.relname, a.attnum""").fetchall()
assert columns == [
    ("id", "integer", "int4", 4), ("amount", "numeric(9,2)", "numeric", -1), ("day", "date", "date", 4),
    ("id", "integer", "int4", 4), ("v", "double precision[]", "_float8", -1), ("n", "smallint[]", "_int2", -1),
    ("w", "text[]", "_text", -1), ("b", "boolean[]", "_bool", -1),
    ("id", "uuid", "uuid", 16), ("opens", "time without time zone", "time", 8), ("doc", "jsonb", "jsonb", -1),
    ("raw", "json", "json", -1), ("owner", "uuid", "uuid", 16)], columns
(count,) = con.execute("SELECT count(*) FROM pg_attribute WHERE atttypid = 'uuid'::regtype").fetchone()
assert count >= 2, count
print("all is well")
