"""Compares FleetDB with a real InfluxDB 1: sends both the same bodies of line protocol, most of them randomly broken. Both
must keep the same lines, and hold the same rows after their fields have been merged.

Arguments: FleetDB's address, InfluxDB's address, the seed, the number of bodies. `ON_PURPOSE` names the intended differences
with their reasons, as in docs/line-protocol.md. Any other difference is printed with its body and is a failure.
"""

import http.client
import json
import random
import re
import sys
import time
import urllib.parse
from collections import Counter

ROUND = 500  # Bodies per database; a database is compared as a whole.
MOST_SHOWN = 20
PRECISIONS = {"ns": 1, "n": 1, "u": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "": 1}
START = time.time_ns()
# Initial rows, which fix the types of fields in each of InfluxDB's three shards, so that no broken line chooses them.
SEEDING = "\n".join(
    f'{table} f=1.5,f2=1.5,f3=1.5,i=1i,b1=true,s="x" {at}'
    for table in ("cpu,b=0,host=a", "m\\ em,b=0,k=v")
    for at in (-9 * 10**18, 1, 5 * 10**18)
)


class Database:
    """A server, asked over one HTTP connection."""

    def __init__(self, address):
        self.address = address
        self.connection = http.client.HTTPConnection(address, timeout=60)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def write(self, database, precision, body):
        query = {"db": database, "precision": precision} if precision else {"db": database}
        return self.ask("POST", "/write?" + urllib.parse.urlencode(query), body)


class Panic(Exception):
    """InfluxDB failed internally: it cannot read a field that has different types in different shards."""


class Influx(Database):
    # Measurements that InfluxDB cannot read in this round.
    unreadable = set()

    def run(self, query, **more):
        status, body = self.ask("POST", "/query?" + urllib.parse.urlencode({"q": query, "epoch": "ns", **more}))
        answer = json.loads(body)["results"][0]
        if "[panic:" in answer.get("error", ""):
            raise Panic
        assert status == 200 and "error" not in answer, (query, answer)
        return answer.get("series", [])

    def begin(self, database):
        self.unreadable.clear()
        # Few shards, because InfluxDB keeps the types of fields per shard.
        self.run(f'CREATE DATABASE {database} WITH DURATION INF REPLICATION 1 SHARD DURATION 15250w NAME "all"')

    def end(self, database):
        self.run(f"DROP DATABASE {database}")

    def rows(self, database):
        """All rows: measurement, time, and the columns that have a value."""
        for measurement in self.run("SHOW MEASUREMENTS", db=database)[0]["values"]:
            name = measurement[0]
            # A pattern can match names that InfluxQL cannot quote.
            pattern = "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in name)
            # Many rows come in several parts.
            try:
                parts = self.run(f"SELECT * FROM /^{pattern}$/", db=database)
            except Panic:
                self.unreadable.add(name)
                continue
            for part in parts:
                for values in part["values"]:
                    row = dict(zip(part["columns"], values))
                    yield normal(name, row.pop("time"), row)

    def fields_of_several_types(self, database):
        """The fields that have different types in different shards, by measurement. InfluxDB reads values of one type only."""
        series = self.run("SHOW FIELD KEYS", db=database)
        kinds = {of["name"]: Counter(name for name, _ in of["values"]) for of in series}
        return {measurement: {name for name, types in of.items() if types > 1} for measurement, of in kinds.items()}

    def verdict(self, status, answer):
        """The status, and the errors of refused lines."""
        return status, json.loads(answer)["error"] if answer else ""


class Fleet(Database):
    def run(self, query):
        status, body = self.ask("POST", "/api/v1/sql?format=ndjson", query.encode())
        assert status == 200, (query, body)
        return [json.loads(line) for line in body.splitlines()]

    def begin(self, database):
        pass

    def end(self, database):
        for table in self.tables():
            self.run(f"DROP TABLE {quoted(table)}")

    def tables(self):
        return [row["table_name"] for row in self.run("SELECT table_name FROM system.tables")]

    def rows(self, database):
        for table in self.tables():
            # Any time can be read as a number.
            for row in self.run(f'SELECT CAST("time" AS BIGINT) AS "the time", * FROM {quoted(table)}'):
                del row["time"]
                yield normal(table, row.pop("the time"), row)

    def verdict(self, status, answer):
        return status, "\n".join(line["error_message"] for line in json.loads(answer)["data"]) if answer else ""


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def normal(table, at, row):
    """A row in a form that can be compared: a time assigned by the server becomes `now`. InfluxDB writes a float without a
    fraction as an integer, so only the field `i` of the initial tables is known to hold integers."""
    if abs(at - START) < 86_400 * 10**9:
        at = "now"
    # If a tag and a field have the same name, either of them may be called `name_1`.
    named = [(re.sub("_1$", "", name), of) for name, of in row.items() if of is not None]
    return table, at, tuple(sorted(((name, value(table, name, of)) for name, of in named), key=repr))


def value(table, name, value):
    is_integer = name == "i" and table in ("cpu", "m em")
    is_float = isinstance(value, (int, float)) and not isinstance(value, bool) and not is_integer
    return float(value) if is_float else value


# Bodies.


def text(random):
    inside = ["a", "b", " ", ",", "=", "\\\\", '\\"', "\\", "\n", "#", "é", "1", "x y", "\\n", "\t", "i"]
    return "".join(random.choice(inside) for _ in range(random.randrange(6)))


def name(random, plain):
    if random.random() < 0.8:
        return random.choice(plain)
    inside = ["a", "\\ ", "\\,", "\\=", "\\", "é", "x", "1", '"', "#", "\\\\"]
    return "".join(random.choice(inside) for _ in range(random.randrange(1, 4)))


def number(random):
    kinds = [
        lambda: str(random.randrange(-100, 100)),
        lambda: repr(random.uniform(-1e3, 1e3)),
        lambda: random.choice("0 -0 1e3 -1.5E-3 1e+2 .5 5. 1e400 -1e308 00 1e +1 - 1_0".split()),
        lambda: str(random.randrange(-(2**70), 2**70)),
    ]
    return random.choices(kinds, [4, 4, 2, 1])[0]()


def field(random):
    kind = random.randrange(6)
    if kind == 0:
        most = random.choice([9, 2**63, 2**64])
        return f"i={random.randrange(-most, most)}i"
    if kind == 1:
        return "b1=" + random.choice("t T true True TRUE f F false False FALSE tRUE yes".split())
    if kind == 2:
        return f's="{text(random)}"'
    if kind == 3:
        return f"{name(random, ['f2', 'f3'])}={number(random)}"
    return f"f={number(random)}"


def timestamp(random, precision):
    kind = random.randrange(12)
    if kind == 0:
        return ""
    unit = PRECISIONS[precision]
    # Mostly within one shard.
    span = (2**63 - 10) // unit if kind == 1 else min(2 * 10**18 // unit, 1_000 if kind < 6 else 10**9)
    if kind == 2:
        return " " + random.choice(["-1", "0", "-0", "+5", "007", "1.0", "1i", "9" * 20, "x", "1 2", " 3", "4 "])
    return f" {random.randrange(-span, span)}"


def series(random, number):
    tags = [f"b={number}"]
    for _ in range(random.randrange(3)):
        tag = name(random, ["host", "k", "z"])
        tags.append(f"{tag}={name(random, ['a', 'b', 'v'])}")
    if random.random() < 0.3:
        random.shuffle(tags)
    return ",".join([random.choice(["cpu", "m\\ em"]), *tags])


def line(random, series, timestamp):
    if random.random() < 0.06:
        return random.choice(["", "  ", "# a comment", '# "it', "#", "\t", "\t# tab", " # blank"])
    fields = [field(random) for _ in range(random.randrange(1, 4))]
    if random.random() < 0.9:
        # A field rarely appears twice.
        fields = list({each.split("=")[0]: each for each in fields}.values())
    blank = random.choice([" "] * 9 + ["  "])
    return series + blank + ",".join(fields) + timestamp


def body(random, number, precision):
    lines = []
    for _ in range(random.randrange(1, 7)):
        # Often the same row again with other fields, which are merged.
        if not lines or random.random() < 0.6:
            place = series(random, number), timestamp(random, precision)
        lines.append(line(random, *place))
    end = random.choice(["\n"] * 9 + ["\r\n"])
    text = end.join(lines) + random.choice(["", end])
    for _ in range(random.choice([0, 0, 1, 1, 1, 2, 4])):
        text = mutated(random, text)
    return text.encode()


def mutated(random, text):
    if not text:
        return text
    at, other = sorted(random.randrange(len(text) + 1) for _ in range(2))
    chunk = text[at : min(other, at + random.choice([1, 3, 10, 40]))]
    special = random.choice(list(',= "\\\n#ieE.-+0ut\t\r/\'') + ["\\\n", '""', ",,", "==", "  ", "\\ ", "é"])
    swapped = text.translate({ord(","): " ", ord(" "): ","}) if random.random() < 0.1 else text[:at] + chunk[::-1] + text[at:]
    changes = [
        text[:at] + special + text[at + 1 :],
        text[:at] + special + text[at:],
        text[:at] + text[at + len(chunk) :],
        text[:at] + chunk + text[at:],
        text[:at],
        text[at:],
        text[:at] + text[at : at + 1].swapcase() + text[at + 1 :],
        swapped,
    ]
    return random.choice(changes)


# Intended differences: a name, and whether it explains the difference for a body.

ON_PURPOSE = {
    # FleetDB accepts what InfluxDB refuses.
    "a line that ends with CR LF": lambda body, ours, theirs: "\r" in body,
    "a tab at the end of a line": lambda body, ours, theirs: re.search(r"[\t\0] *$", body, re.MULTILINE),
    "an unsigned integer": lambda body, ours, theirs: re.search(r"\du", body),
    "an integer for a float column": lambda body, ours, theirs: "is type integer, already exists as type float" in theirs,
    "a quote in a comment": lambda body, ours, theirs: re.search(r"^[ \t]*#.*[\"\\]", body, re.MULTILINE),
    # FleetDB refuses what InfluxDB accepts.
    "a control character in a name": lambda body, ours, theirs: "control character" in ours,
    "a text that goes on behind its quote": lambda body, ours, theirs: "must be followed by" in ours or goes_on_behind_quote(body, ours),
    "a field without an equals sign before a torn text that contains one": lambda body, ours, theirs: has_field_without_equals(body, ours),
    "an equals sign that begins a tag's value": lambda body, ours, theirs: "has no value" in ours and "==" in body,
    "a field without a name": lambda body, ours, theirs: re.search(r" [ \t\0]*=", body),
    "a type is a column's, not a shard's": lambda body, ours, theirs: "but the column is of type" in ours or has_type_of_shard(theirs),
    # Both accept it with different meanings.
    "two backslashes in a name": lambda body, ours, theirs: re.search(r"\\\\[ ,=\"]", body),
}


def goes_on_behind_quote(body, ours):
    """Whether FleetDB refuses a field before a text that goes on: InfluxDB counts the equals signs in both."""
    return "must be name=value" in ours and re.search(r'="[^"\n]*"[^ ,\t\n]', body)


def has_field_without_equals(body, ours):
    """Whether FleetDB refuses a field without an equals sign, or an empty one. InfluxDB counts the commas and the equals signs of
    a line, and takes an equals sign in a text for the one that is missing."""
    refused = "missing fields" in ours or "must be name=value" in ours
    return refused and re.search(r'[ ,][^=,"\n]*,[^\n]*="(?:\\.|[^"\\\n])*=', body)


def has_type_of_shard(theirs):
    """Whether InfluxDB refuses a field that a broken line created: it may have another type in another shard."""
    field = re.search(r'field type conflict: input field "([^"]*)"', theirs)
    return field and not re.search(rf"[ ,]{re.escape(field[1])}=", SEEDING)


def explained(body, ours, theirs):
    """The intended difference that explains these answers to a body; `None` if there is none."""
    text = body.decode()
    return next((name for name, explains in ON_PURPOSE.items() if explains(text, ours[1], theirs[1])), None)


def owner(row, bodies, verdicts):
    """The body that a row came from, according to its tag if the row has kept it. Otherwise a body with the row's time and an
    intended difference; -1 if there is none."""
    _, at, parts = row

    def has_time(number):
        precision, sent = bodies[number]
        if at == "now":
            return True
        units, rest = divmod(abs(at), PRECISIONS[precision])
        return rest == 0 and re.search(rf"(?<!\d)0*{units}(?!\d)", sent.decode())

    # A torn tag may be another number, or the same with a zero before it.
    tag = str(dict(parts).get("b"))
    of_tag = next((number for number in bodies if str(number) == tag), -1)
    if of_tag >= 0 and has_time(of_tag):
        return of_tag
    others = (number for number in bodies if has_time(number) and explained(bodies[number][1], *verdicts[number]))
    return next(others, -1)


def has_two_spellings(measurement, bodies):
    """Whether the bodies name the measurement in two ways, such as `a=b` and `a\\=b`. InfluxDB then has two series under one
    name, and finds the rows of only one of them."""
    ways = {" ": "\\\\ ", ",": "\\\\,", "=": "\\\\?=", '"': '\\\\?"'}
    written = "".join(ways.get(c, re.escape(c)) for c in measurement)
    begins = re.compile(rf"^[ \t\0]*({written})(?=[ ,])", re.MULTILINE)
    return len({spelling for _, sent in bodies.values() for spelling in begins.findall(sent.decode())}) > 1


def comparable(rows, hidden, mixed):
    """The rows of measurements that are not hidden, without the mixed fields of their measurements."""
    return Counter(
        (measurement, at, tuple(part for part in parts if part[0] not in mixed.get(measurement, ())))
        for measurement, at, parts in rows.elements()
        if measurement not in hidden
    )


def main():
    fleet, influx = Fleet(sys.argv[1]), Influx(sys.argv[2])
    seed, count = int(sys.argv[3]), int(sys.argv[4])
    failures, on_purpose, kept = 0, Counter(), 0
    for first in range(0, count, ROUND):
        database = f"round{first}"
        for server in (influx, fleet):
            server.begin(database)
            assert server.write(database, "", SEEDING.encode())[0] == 204
        bodies, verdicts = {}, {}
        for number in range(first, min(first + ROUND, count)):
            # Each body has its own seed, so that it can be repeated alone.
            dice = random.Random(seed * 1_000_003 + number)
            precision = dice.choice(list(PRECISIONS))
            sent = body(dice, number, precision)
            bodies[number] = (precision, sent)
            verdicts[number] = [server.verdict(*server.write(database, precision, sent)) for server in (fleet, influx)]
        differing = {n for n, (ours, theirs) in verdicts.items() if ours[0] != theirs[0]}
        found = [Counter(row for row in server.rows(database)) for server in (fleet, influx)]
        on_purpose["a measurement that InfluxDB fails to read"] += len(influx.unreadable)
        named = {row[0] for row in found[0] if "=" in row[0] or '"' in row[0]} - influx.unreadable
        spelled_twice = {name for name in named if has_two_spellings(name, bodies)}
        on_purpose["a measurement that is written in two ways"] += len(spelled_twice)
        hidden, mixed = influx.unreadable | spelled_twice, influx.fields_of_several_types(database)
        found = [comparable(rows, hidden, mixed) for rows in found]
        kept += len(found[0])
        rows = {}
        for row in found[0].keys() | found[1].keys():
            if found[0][row] != found[1][row]:
                of_body = rows.setdefault(owner(row, bodies, verdicts), [])
                of_body.append(f"{row}: FleetDB {found[0][row]}, InfluxDB {found[1][row]}")
        for number in sorted(differing | rows.keys()):
            precision, sent = bodies.get(number, ("", b""))
            ours, theirs = verdicts.get(number, ((0, ""), (0, "")))
            reason = explained(sent, ours, theirs)
            if reason:
                on_purpose[reason] += 1
                continue
            failures += 1
            if failures <= MOST_SHOWN:
                print(f"body {number} (precision '{precision}'): {sent!r}\n    FleetDB {ours}\n    InfluxDB {theirs}")
                print("".join(f"    {row}\n" for row in rows.get(number, [])))
        for server in (influx, fleet):
            server.end(database)
    for reason, times in on_purpose.items():
        print(f"on purpose: {reason}: {times} bodies")
    print(f"{count} bodies of seed {seed}, {kept} rows, {failures} bodies differ")
    if not failures:
        print("all is well")
    sys.exit(failures > 0)


main()
