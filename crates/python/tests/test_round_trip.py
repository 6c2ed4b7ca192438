"""Random rows of every type go in and come back, through Arrow, polars and pandas."""

import datetime
import decimal
import os

import fleetdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

EXAMPLES = int(os.environ.get("FLEETDB_EXAMPLES", "30"))

# In each unit, times that numpy and polars have as well: from 1677 to 2262 in nanoseconds, and of four
# digits of a year in the others.
BOUNDS = {"ns": 2**63 - 1, "us": 2**55, "ms": 2**45, "s": 2**35}


def integers(bits, signed=True):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def timestamps(unit):
    return st.integers(-BOUNDS[unit] + 1, BOUNDS[unit])


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
FLOATS = st.floats(width=64)
COLUMNS = {
    "flag": (pa.bool_(), st.booleans()),
    "i8": (pa.int8(), integers(8)),
    "i16": (pa.int16(), integers(16)),
    "i32": (pa.int32(), integers(32)),
    "i64": (pa.int64(), integers(64)),
    "u8": (pa.uint8(), integers(8, signed=False)),
    "u16": (pa.uint16(), integers(16, signed=False)),
    "u32": (pa.uint32(), integers(32, signed=False)),
    "u64": (pa.uint64(), integers(64, signed=False)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), FLOATS),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "day": (pa.date32(), st.dates(datetime.date(1, 1, 1))),
    "clock": (pa.time64("us"), st.times()),
    "amount": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3, allow_nan=False)),
    "list": (pa.list_(pa.int64()), st.lists(st.none() | integers(64), max_size=4)),
    **{f"t_{unit}": (pa.timestamp(unit), timestamps(unit)) for unit in BOUNDS},
    **{f"z_{unit}": (pa.timestamp(unit, "UTC"), timestamps(unit)) for unit in BOUNDS},
}


@st.composite
def tables(draw, names=tuple(COLUMNS)):
    """A table of a few rows, in which every value may be NULL but the key."""
    count = draw(st.integers(1, 6))
    arrays = {"id": pa.array(range(count), pa.int64())}
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=6, unique=True)):
        kind, values = COLUMNS[name]
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        if pa.types.is_timestamp(kind):
            arrays[name] = pa.array(drawn, pa.int64()).cast(kind)
        else:
            arrays[name] = pa.array(drawn, kind, from_pandas=False)
    return pa.table(arrays)


@pytest.fixture(scope="module", params=["embedded", "http"])
def connection(request):
    if request.param == "embedded":
        connection = fleetdb.connect(":memory:")
    else:
        connection = fleetdb.connect(request.getfixturevalue("server").url)
    with connection:
        yield connection


def there_and_back(connection, rows, like):
    """Writes rows to a new table with the columns of `like`; returns the result with all of them."""
    connection.sql("DROP TABLE IF EXISTS trip")
    connection.insert("trip", like.slice(0, 0), key="id", time=False, create=True)
    connection.insert("trip", rows)
    return connection.sql("SELECT * FROM trip ORDER BY id")


def same(found, expected):
    """Whether two tables have the same values, with NaN as a value."""
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        left, right = found.column(name), expected.column(name)
        assert left.type == right.type, name
        if pa.types.is_floating(left.type):
            assert [repr(value) for value in left.to_pylist()] == [repr(value) for value in right.to_pylist()], name
        else:
            left, right = left.combine_chunks(), right.combine_chunks()
            assert left.equals(right), f"{name}: {left} {right}"


given_tables = given(tables())
few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@few
@given_tables
def test_arrow(connection, table):
    same(there_and_back(connection, table, table).arrow(), table)


@few
@given_tables
def test_polars(connection, table):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(table)
    back = there_and_back(connection, frame, table).pl()
    # polars has neither seconds nor, of times of day, anything but nanoseconds.
    assert back.schema == frame.schema
    assert back.equals(frame, null_equal=True) or repr(back.rows()) == repr(frame.rows())


@few
@given_tables
def test_pandas_with_numpy(connection, table):
    pandas = pytest.importorskip("pandas")
    from fleetdb._pandas import frame_of

    class Whole:
        def arrow(self):
            return table

    frame = frame_of(Whole())
    back = there_and_back(connection, frame, table).df()
    # Of floats, pandas does not tell NaN from NULL.
    pandas.testing.assert_frame_equal(back, frame)


@few
@given_tables
def test_pandas_with_pyarrow(connection, table):
    pytest.importorskip("pandas")
    frame = table.to_pandas(types_mapper=__import__("pandas").ArrowDtype)
    back = there_and_back(connection, frame, table).df(dtype_backend="pyarrow")
    assert list(back.dtypes) == list(frame.dtypes)
    same(pa.Table.from_pandas(back, preserve_index=False), pa.Table.from_pandas(frame, preserve_index=False))


@few
@given(tables())
def test_objects(connection, table):
    """Rows as tuples go in as they came out."""
    result = there_and_back(connection, table, table)
    names, rows = result.columns, result.fetchall()
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    types = {field.name: field.type for field in table.schema}
    # Of times, Python has microseconds.
    known = {name: values for name, values in columns.items() if getattr(types[name], "unit", "us") == "us"}
    connection.sql("DELETE FROM trip")
    connection.insert("trip", known)
    again = connection.sql(f"SELECT {', '.join(known)} FROM trip ORDER BY id").fetchall()
    assert repr(again) == repr([tuple(values) for values in zip(*known.values())])


@few
@given(st.lists(st.none() | st.decimals(-(10**10), 10**10, places=4, allow_nan=False), min_size=1, max_size=5))
def test_decimals_keep_their_digits(connection, values):
    connection.sql("DROP TABLE IF EXISTS trip; CREATE TABLE trip (id BIGINT PRIMARY KEY, v NUMERIC(15, 4))")
    connection.insert("trip", {"id": list(range(len(values))), "v": values})
    found = [value for (value,) in connection.sql("SELECT v FROM trip ORDER BY id").fetchall()]
    assert found == values
    assert all(value is None or isinstance(value, decimal.Decimal) for value in found)
