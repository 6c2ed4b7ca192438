"""What `insert` takes, as an object with Arrow's C stream or C array interface.

Nothing is imported here that the caller has not imported before, except pyarrow for pandas.
"""

import sys
from datetime import datetime

from ._result import Result
from ._values import in_units


def arrow_of(rows, *, time=None, names=None):
    """The rows as an Arrow object, and their number if it is known.

    rows  -- a result, an object with Arrow's C stream or C array interface, a frame of pandas or polars, a dict of
             columns, or an iterable of rows: dicts, or tuples in the order of `names`
    time  -- the name of a frame's DatetimeIndex as a column; by default its own, or "time"
    names -- a function that gives the names of the columns of rows without names
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        return _of_pandas(rows, time, pandas), len(rows)
    if isinstance(rows, Result):
        return rows._take(), None
    if type(rows).__name__ == "LazyFrame" and hasattr(rows, "collect"):
        rows = rows.collect()
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return rows, _length(rows)
    if isinstance(rows, dict):
        return of_columns(rows), _length(next(iter(rows.values()), ()))
    if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
        raise TypeError(f"{type(rows).__name__} is no frame, no dict of columns and no list of rows")
    rows = list(rows)
    return of_columns(_columns_of(rows, names)), len(rows)


def _length(rows):
    for name in ("num_rows", "height"):
        length = getattr(rows, name, None)
        if isinstance(length, int):
            return length
    try:
        return len(rows)
    except TypeError:
        return None


def of_columns(columns):
    """A stream with these columns: arrays of NumPy, Series, Arrow arrays, or lists."""
    from ._native import from_columns

    return from_columns([str(name) for name in columns], [_column(values) for values in columns.values()])


def _columns_of(rows, names):
    """The columns of a list of rows."""
    if not rows:
        return {}
    if isinstance(rows[0], dict):
        found = {}
        for row in rows:
            found.update(dict.fromkeys(row))
        return {name: [row.get(name) for row in rows] for name in found}
    names = list(names()) if names is not None else [f"column{place}" for place in range(1, len(rows[0]) + 1)]
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(
                f"row {number} has {len(row)} values, but there are {len(names)} columns: {', '.join(names)}"
            )
    return dict(zip(names, (list(values) for values in zip(*rows))))


def _column(values):
    """A column as `from_columns` takes it: an Arrow object, a list, or NumPy's type, bytes and NULLs."""
    if type(values) is list:
        return _of_list(values)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, (pandas.Series, pandas.Index)):
        return _of_series(pandas.Series(values), pandas)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return values
    if hasattr(values, "dtype") and hasattr(values, "tobytes"):
        return _of_numpy(values)
    return _of_list(list(values))


def _of_list(values):
    """A list, or an array of the times of NumPy that it has: they may have nanoseconds."""
    numpy = sys.modules.get("numpy")
    if numpy is None or numpy.datetime64 not in set(map(type, values)):
        return values

    def time(value):
        # NaT is the only time that differs from itself. The NULL of pandas has no truth value.
        if value is None or type(value).__name__ == "NAType" or value != value:
            return numpy.datetime64("NaT", "s")
        if type(value) is numpy.datetime64 or (type(value) is datetime and value.tzinfo is None):
            return numpy.datetime64(value)
        raise TypeError(f"a column has a datetime64 and a value of type {type(value).__name__}")

    return _of_numpy(numpy.array([time(value) for value in values]))


def _of_numpy(values):
    if values.ndim != 1:
        raise ValueError(f"a column has one dimension, not {values.ndim}")
    kind, dtype = values.dtype.kind, values.dtype
    if kind == "m":
        raise TypeError(f"a column cannot be of NumPy's type {dtype}: give a number in a unit")
    if kind == "M":
        values = in_units(values)
    elif kind not in "biuf" or dtype.itemsize not in (1, 2, 4, 8) or dtype.str[1:] == "f2":
        return _of_list(values.tolist())
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return values.dtype.str, values.tobytes(), None


def _pyarrow():
    """The module pyarrow; None if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _of_pandas(frame, time, pandas):
    """A frame of pandas. A DatetimeIndex and an index with a name become columns."""
    index = frame.index
    if isinstance(index, pandas.DatetimeIndex):
        frame = frame.rename_axis(index=time or index.name or "time").reset_index()
    elif any(name is not None for name in index.names):
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        raise ValueError(f"the frame has two columns of one name: {', '.join(map(str, frame.columns))}")
    pyarrow = _pyarrow()
    if pyarrow is not None and all(isinstance(name, str) for name in frame.columns):
        try:
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            return table.replace_schema_metadata(None)
        except (pyarrow.ArrowException, TypeError):
            # Objects that pyarrow has no type for, such as UUIDs.
            pass
    return of_columns({name: frame[name] for name in frame.columns})


def _of_series(series, pandas):
    """A Series of pandas. NaN is NULL, and times with a zone are instants."""
    pyarrow = _pyarrow()
    if pyarrow is not None:
        try:
            return pyarrow.Array.from_pandas(series)
        except (pyarrow.ArrowException, TypeError):
            # Objects that pyarrow has no type for, such as UUIDs.
            pass
    nulls, dtype = series.isna().to_numpy(), series.dtype
    has_zone = isinstance(dtype, pandas.DatetimeTZDtype)
    if has_zone:
        values = series.dt.tz_convert(None).to_numpy()
    elif hasattr(dtype, "numpy_dtype"):
        # One of pandas' nullable types.
        values = series.to_numpy(dtype.numpy_dtype, na_value=0)
    else:
        values = series.to_numpy()
    column = _of_numpy(values)
    if type(column) is list:
        return _of_list([None if is_null else value for value, is_null in zip(column, nulls)])
    kind, data, _ = column
    return kind.replace("]", ", UTC]") if has_zone else kind, data, nulls.tobytes() if nulls.any() else None
