"""What `insert` takes, as an object with Arrow's C stream or C array interface.

Nothing is imported here that the caller has not imported before, except pyarrow for a frame of pandas.
"""

import sys


def arrow_of(rows, *, time=None, names=None):
    """The rows as an Arrow object, and their number if it is known.

    rows  -- an object with Arrow's C stream or C array interface, a frame of pandas or polars, a dict of
             columns, or an iterable of rows: dicts, or tuples in the order of `names`
    time  -- the name of a frame's DatetimeIndex as a column; by default its own, or "time"
    names -- a function that gives the names of the columns of rows without names
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        return _of_pandas(rows, time, pandas), len(rows)
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
    """A column as `from_columns` takes it: an Arrow object, a pair of NumPy's type and bytes, or a list."""
    if type(values) is list:
        return values
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if hasattr(values, "to_numpy") and not hasattr(values, "__arrow_c_array__") and not _has_pyarrow():
        # A Series of pandas, which needs pyarrow for Arrow's interfaces.
        values = values.to_numpy()
        kind = values.dtype.kind
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return values
    if kind is not None and hasattr(values, "tobytes"):
        return _of_numpy(values, kind)
    return list(values)


def _of_numpy(values, kind):
    if values.ndim != 1:
        raise ValueError(f"a column has one dimension, not {values.ndim}")
    dtype = values.dtype
    if kind == "M" and dtype.str[1:] not in ("M8[s]", "M8[ms]", "M8[us]", "M8[ns]"):
        values = values.astype("M8[s]")
    elif kind not in "biufM" or dtype.itemsize not in (1, 2, 4, 8) or dtype.str == "<f2":
        return values.tolist()
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return values.dtype.str, values.tobytes()


def _has_pyarrow():
    from importlib.util import find_spec

    return "pyarrow" in sys.modules or find_spec("pyarrow") is not None


def _of_pandas(frame, time, pandas):
    """A frame of pandas. A DatetimeIndex and an index with a name become columns."""
    index = frame.index
    if isinstance(index, pandas.DatetimeIndex):
        frame = frame.rename_axis(index=time or index.name or "time").reset_index()
    elif any(name is not None for name in index.names):
        frame = frame.reset_index()
    if not _has_pyarrow():
        return of_columns({name: frame[name] for name in frame.columns})
    import pyarrow

    if all(isinstance(name, str) for name in frame.columns):
        try:
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            return table.replace_schema_metadata(None)
        except (pyarrow.ArrowException, TypeError):
            # Objects that pyarrow has no type for, such as UUIDs.
            pass
    return of_columns({name: _pandas_column(frame[name], pyarrow) for name in frame.columns})


def _pandas_column(series, pyarrow):
    try:
        return pyarrow.Array.from_pandas(series)
    except (pyarrow.ArrowException, TypeError):
        return [None if value is None or value != value else value for value in series]
