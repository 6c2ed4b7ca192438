"""Exact decimal numbers with psycopg, sent and received as text and in binary, by INSERT and by COPY."""
import sys
from decimal import Decimal

import psycopg

port = sys.argv[1]
warnings = []


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


with psycopg.connect(host="127.0.0.1", port=port, user="me", autocommit=True) as db:
    db.add_notice_handler(lambda notice: warnings.append((notice.sqlstate, notice.message_primary)))
    db.execute("CREATE TABLE bills (id BIGINT PRIMARY KEY, euro NUMERIC(10, 2), rate NUMERIC(18, 6), v DOUBLE PRECISION)")

    def euros(condition="true", values=(), binary=False, prepare=None):
        query = f"SELECT euro FROM bills WHERE {condition} ORDER BY id"
        return [str(euro) for (euro,) in db.execute(query, values, binary=binary, prepare=prepare)]

    # Rounded as PostgreSQL rounds: halves away from zero.
    given = [Decimal("12.505"), Decimal("-0.005"), Decimal("99999999.99"), Decimal("0"), None, Decimal("1E+3"), 7, Decimal("0.10")]
    for place, (kind, euro) in enumerate((kind, euro) for kind in ("s", "b") for euro in given):
        db.execute(f"INSERT INTO bills (id, euro) VALUES (%s, %{kind})", (place, euro))
    expected = ["12.51", "-0.01", "99999999.99", "0.00", "None", "1000.00", "7.00", "0.10"]
    equal(euros(), expected * 2)
    # In binary, zero has no digits.
    equal(euros(binary=True), [euro.replace("0.00", "0") if euro == "0.00" else euro for euro in expected * 2])
    for euro in (Decimal("99999999.995"), Decimal("1E+20"), Decimal("NaN")):
        for kind in ("s", "b"):
            try:
                db.execute(f"INSERT INTO bills (id, euro) VALUES (100, %{kind})", (euro,))
                raise AssertionError(f"{euro} was taken")
            except psycopg.DataError as error:
                code = {("NaN", "s"): "22P02", ("NaN", "b"): "22P03"}.get((str(euro), kind), "22003")
                equal((euro, kind, error.sqlstate), (euro, kind, code))

    # A number that has other digits than the column is compared as it is.
    db.execute("DELETE FROM bills WHERE id > 7")
    for kind in ("s", "b"):
        for prepare in (False, True, True):
            def where(condition, *values):
                return euros(condition.replace("%s", f"%{kind}"), values, prepare=prepare)

            equal(where("euro = %s", Decimal("12.51")), ["12.51"])
            equal(where("euro = %s", Decimal("12.505")), [])
            equal(where("euro > %s AND euro < 1", Decimal("0.0999")), ["0.10"])
            equal(where("euro > %s AND euro < 1", Decimal("0.1000")), [])
            equal(where("euro >= %s AND euro <= %s", Decimal("0.1"), Decimal("7.009")), ["7.00", "0.10"])
            equal(where("euro IN (%s, %s)", Decimal("7"), Decimal("-0.01")), ["-0.01", "7.00"])
            equal(where("euro <= %s", -5), [])
            equal(where("euro IS NOT DISTINCT FROM %s", None), ["None"])
            equal(where("euro = %s", 12.51), ["12.51"])

    # Sums are exact, however many there are.
    db.execute("DELETE FROM bills")
    with db.cursor().copy("COPY bills (id, euro, rate) FROM STDIN") as copy:
        for place in range(1000):
            copy.write_row((place, Decimal("0.10"), Decimal("0.000001") * place))
    equal(db.execute("SELECT sum(euro), sum(rate), max(rate) FROM bills").fetchone(), (Decimal("100.00"), Decimal("0.4995"), Decimal("0.000999")))
    with db.cursor().copy("COPY (SELECT euro, rate FROM bills WHERE id = 7) TO STDOUT") as copy:
        equal(b"".join(copy), b"0.10\t0.000007\n")
    with db.cursor().copy("COPY bills (id, euro) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "numeric"])
        copy.write_row((7, Decimal("-1.5")))
    db.execute("UPDATE bills SET euro = euro + %s WHERE id = %s", (Decimal("0.01"), 7))
    equal(euros("id = 7", binary=True), ["-1.49"])
    raised = "INSERT INTO bills (id, euro) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET euro = bills.euro + excluded.euro RETURNING euro"
    equal(db.execute(raised, (7, Decimal("2.5"))).fetchone(), (Decimal("1.01"),))

    # By key, a number for a float and an integer for a decimal number
    db.execute("UPDATE bills SET v = 1 WHERE id = 7")
    for kind in ("s", "b"):
        db.execute(f"UPDATE bills SET v = v + %{kind} WHERE id = 7", (Decimal("1.5"),))
        db.execute(f"INSERT INTO bills (id, euro) VALUES (7, %{kind}) ON CONFLICT (id) DO UPDATE SET euro = bills.euro + excluded.euro", (7,))
    equal(db.execute("SELECT v, euro FROM bills WHERE id = 7").fetchone(), (4.0, Decimal("15.01")))
    db.execute("UPDATE bills SET rate = %s WHERE euro = 15.01", (Decimal("123456789012.345678"),))
    equal(db.execute("SELECT rate FROM bills WHERE rate = %s", (Decimal("123456789012.345678"),), binary=True).fetchone(), (Decimal("123456789012.345678"),))
    # A float may be a parameter; long products arrive as text.
    for binary in (False, True):
        for prepare in (False, True, True):
            product = db.execute("SELECT euro * %s FROM bills WHERE id = 7", (1.5,), binary=binary, prepare=prepare)
            equal(float(product.fetchone()[0]), 22.515)
    long = db.execute("SELECT rate * rate FROM bills WHERE id = 7").fetchone()[0]
    equal(str(long), "15241578753238836527968.299765279684")
    many = "SELECT array_agg(rate * rate) FROM bills WHERE id = 7"
    equal(db.execute(many).fetchone()[0], [long])
    try:
        db.execute(many, binary=True)
        raise AssertionError("an array of numbers that have more than 28 digits was sent in binary")
    except psycopg.DataError as error:
        equal(error.sqlstate, "22003")
    db.execute("UPDATE bills SET rate = 0.000007 WHERE id = 7")

    # Drivers know the digits.
    column = db.execute("SELECT euro, rate FROM bills LIMIT 1").description[0]
    equal(column.type_code, 1700)
    equal(db.execute("SELECT round(sum(euro) * 1.19, 2) FROM bills WHERE id < 7").fetchone(), (Decimal("0.83"),))

    # A foreign key is taken with a warning.
    equal(warnings, [])
    db.execute("CREATE TABLE payments (id BIGINT PRIMARY KEY, bill BIGINT REFERENCES bills (id))")
    equal(warnings, [("01000", "foreign keys are not enforced: rows may name rows of bills that do not exist")])
print("all is well")
