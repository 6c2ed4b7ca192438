"""UUIDs, times of day and JSON with psycopg, as text and in binary, by INSERT and by COPY."""
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
for wrong, state in (("SELECT 1 FROM devices WHERE id = 'x'", "22P02"), ("INSERT INTO devices (opens) VALUES ('24:30')", "22008"),
                     ("INSERT INTO devices (doc) VALUES ('{')", "22P02"), ("INSERT INTO devices (owner) VALUES ('zz')", "22P02")):
    try:
        con.execute(wrong)
        raise SystemExit(f"{wrong} is taken")
    except psycopg.Error as error:
        assert error.sqlstate == state, (wrong, error.sqlstate, str(error))
rows = con.execute("SELECT udt_name FROM information_schema.columns WHERE table_name = 'devices' ORDER BY ordinal_position")
assert [name for (name,) in rows][:2] == ["uuid", "time"]
print("all is well")
