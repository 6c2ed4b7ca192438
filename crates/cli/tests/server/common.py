"""What scripts with psycopg share. The first argument of each is the port of the PostgreSQL wire."""
import sys
import time

import psycopg

postgres = int(sys.argv[1])


def connect(autocommit=True, **more):
    return psycopg.connect(f"host=127.0.0.1 port={postgres} user=me dbname=fleetdb", autocommit=autocommit, **more)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def fails(code, call, *args):
    try:
        call(*args)
    except psycopg.Error as error:
        equal(error.sqlstate, code)
    else:
        raise AssertionError(f"{args} did not fail")


def until_equal(db, sql, expected):
    """Waits until the first row of a query is this one. Lines that are not acknowledged take some time to appear."""
    for _ in range(2000):
        try:
            if db.execute(sql).fetchone() == expected:
                return
        except psycopg.errors.UndefinedTable:
            pass
        time.sleep(0.005)
    raise AssertionError(f"{sql} did not become {expected}")
