"""Results as frames of pandas."""


def frame_of(result, dtype_backend=None):
    """The rows of a result as a `pandas.DataFrame`; see `Result.df`."""
    import pandas

    if dtype_backend not in (None, "numpy", "pyarrow", "numpy_nullable"):
        raise ValueError("dtype_backend is 'pyarrow', 'numpy_nullable' or None")
    try:
        import pyarrow
    except ImportError:
        if dtype_backend not in (None, "numpy"):
            raise
        return pandas.DataFrame.from_records(result.fetchall(), columns=result.columns)
    table = storage(result.arrow(), pyarrow)
    if dtype_backend == "pyarrow":
        return table.to_pandas(types_mapper=pandas.ArrowDtype)
    nullable = _nullable(pandas, pyarrow)
    if dtype_backend == "numpy_nullable":
        return table.to_pandas(types_mapper=nullable.get)
    frame = table.to_pandas()
    for place, column in enumerate(table.columns):
        if pyarrow.types.is_list(column.type):
            # As arrays of NumPy, integers among NULLs would be floats.
            frame.isetitem(place, pandas.Series(column.to_pylist(), frame.index, dtype=object))
        # As floats they would lose digits, and booleans would be objects.
        if column.null_count and column.type in nullable and not pyarrow.types.is_floating(column.type):
            frame.isetitem(place, column.to_pandas(types_mapper=nullable.get).set_axis(frame.index))
    return frame


def storage(table, pyarrow):
    """The table with the stored types of UUIDs and JSON: bytes become `uuid.UUID`, JSON is text."""
    for place, field in enumerate(table.schema):
        kind = getattr(field.type, "extension_name", None)
        if kind == "arrow.json":
            column = table.column(place).cast(field.type.storage_type)
            table = table.set_column(place, pyarrow.field(field.name, column.type), column)
    return table


def _nullable(pandas, pyarrow):
    """pandas' nullable types of Arrow's."""
    return {
        pyarrow.bool_(): pandas.BooleanDtype(),
        pyarrow.int8(): pandas.Int8Dtype(),
        pyarrow.int16(): pandas.Int16Dtype(),
        pyarrow.int32(): pandas.Int32Dtype(),
        pyarrow.int64(): pandas.Int64Dtype(),
        pyarrow.uint8(): pandas.UInt8Dtype(),
        pyarrow.uint16(): pandas.UInt16Dtype(),
        pyarrow.uint32(): pandas.UInt32Dtype(),
        pyarrow.uint64(): pandas.UInt64Dtype(),
        pyarrow.float32(): pandas.Float32Dtype(),
        pyarrow.float64(): pandas.Float64Dtype(),
    }
