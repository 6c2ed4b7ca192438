"""One device's rows, and the newest rows of all."""

import datetime

import fleetdb
import pytest

UTC = datetime.timezone.utc


def hour(number):
    return datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(hours=number)


@pytest.fixture
def reads(db):
    db.sql("CREATE TABLE reads (site TEXT, meter BIGINT, ts TIMESTAMPTZ, kwh DOUBLE, PRIMARY KEY (site, meter, ts))")
    db.insert("reads", [("a", 7, hour(number), number / 2) for number in range(24)] + [("b", 8, hour(0), None)])
    return db.table("reads")


def test_a_container_has_its_newest_row(reads):
    assert reads["a", 7].last() == {"site": "a", "meter": 7, "ts": hour(23), "kwh": 11.5}
    assert reads["b", 8].last() == {"site": "b", "meter": 8, "ts": hour(0), "kwh": None}
    assert reads["nobody", 7].last() is None
    newest = reads.last().to_dicts()
    assert {(row["site"], row["meter"], row["ts"]) for row in newest} == {("a", 7, hour(23)), ("b", 8, hour(0))}


def test_a_missing_tag_is_a_key_like_others(db):
    db.write_lines("cpu,host=a usage=1 1\ncpu usage=2 2", precision="s")
    assert db.table("cpu")[None].last()["usage"] == 2.0
    assert [row["usage"] for row in db.table("cpu")[None][:].to_dicts()] == [2.0]
    assert sorted(row["usage"] for row in db.last("cpu").to_dicts()) == [1.0, 2.0]


def test_a_slice_is_a_range_of_times_without_its_end(reads):
    container = reads["a", 7]
    assert [row["kwh"] for row in container[hour(2) : hour(5)].to_dicts()] == [1.0, 1.5, 2.0]
    assert len(container[:].fetchall()) == 24
    assert len(container["2026-01-01 22:00":].fetchall()) == 2
    assert len(container[:"2026-01-01 02:00:00+01:00"].fetchall()) == 1
    assert container[hour(5) : hour(5)].fetchall() == []
    assert container.range(hour(1), hour(3), columns=["kwh"]).fetchall() == [(0.5,), (1.0,)]
    assert container.range(hour(1), hour(2), columns="ts").fetchall() == [(hour(1),)]
    with pytest.raises(TypeError, match="slice of times"):
        container[1]
    with pytest.raises(TypeError, match="a time is a datetime or a text"):
        container[1:2]


def test_totals_of_a_range(reads):
    totals = reads["a", 7].aggregate("kwh", hour(2), hour(5))
    assert totals == (3, 1.0, 2.0, 4.5)
    assert totals.avg == 1.5
    assert reads["a", 7].aggregate("kwh").count == 24
    nothing = reads["a", 7].aggregate("kwh", stop=hour(0))
    assert (nothing, nothing.avg) == ((0, None, None, None), None)
    with pytest.raises(fleetdb.Error):
        reads["a", 7].aggregate("nope")


def test_a_row_is_appended(reads):
    container = reads["b", 9]
    assert container.append(hour(0), kwh=1.5).rows == 1
    container.append("2026-01-01 01:00:00+00:00", {"kwh": 2})
    container.append(hour(1), kwh=3)
    assert [row["kwh"] for row in container[:].to_dicts()] == [1.5, 3.0]


def test_a_key_that_does_not_fit_is_refused(reads):
    with pytest.raises(fleetdb.Error, match="the key has 1 values, but table 'reads' has 2 key columns: site, meter"):
        reads["a"]
    with pytest.raises(fleetdb.Error):
        reads._connection.table("nope")[1]


def test_a_collection_has_no_times(db):
    db.sql("CREATE TABLE meters (id BIGINT PRIMARY KEY, city TEXT)")
    db.insert("meters", [(7, "Kiel"), (8, "Rostock")])
    meters = db.table("meters")
    assert meters[7].last() == {"id": 7, "city": "Kiel"}
    assert len(meters.last().fetchall()) == 2
    with pytest.raises(fleetdb.Error, match="time column"):
        meters[7]["2026-01-01":].fetchall()
