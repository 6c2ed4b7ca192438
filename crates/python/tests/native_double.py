"""What `fleetdb._native` has for connections over HTTP, made with pyarrow.

It lets the tests over HTTP run where the native module is not built. There are no embedded connections.
"""

import datetime
import decimal
import uuid

import pyarrow as pa

__version__ = "0.1.0"
_UTC = datetime.timezone.utc


class Connection:
    """Stands for the class that is not here."""

    @staticmethod
    def open(*_):
        raise NotImplementedError("the native module is not built")


def main(arguments):
    raise NotImplementedError("the native module is not built")


class Stream:
    def __init__(self, reader):
        fields = [_in_python(field) for field in reader.schema]
        self._schema = pa.schema(fields, reader.schema.metadata)
        self._reader = reader
        self._held = []
        self._failure = None

    def names(self):
        return self._schema.names

    def types(self):
        return [_sql_type(field.type) for field in self._schema]

    def sql_types(self):
        from fleetdb._errors import error_of

        for name, kind in zip(self.names(), self.types()):
            if kind.upper() != kind:
                raise error_of("42000", f"column '{name}': Arrow type {kind} is not supported")
        return self.types()

    def _next(self):
        from fleetdb._errors import InterfaceError

        if self._reader is None:
            raise InterfaceError("the rows were read already")
        if self._held:
            return self._held.pop(0)
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return None
            except BaseException:
                self._reader = None
                raise
            if batch.num_rows:
                columns = [array.cast(field.type) for array, field in zip(batch.columns, self._schema)]
                return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def next_batch(self):
        return self._next()

    def next_rows(self):
        batch = self._next()
        return None if batch is None else _rows(batch)

    def peek(self, rows):
        looked_at, count = [], 0
        while count <= rows:
            batch = self._next()
            if batch is None:
                break
            looked_at.append(batch)
            count += batch.num_rows
        self._held = looked_at + self._held
        shown = [row for batch in looked_at for row in _rows(batch)]
        return shown[:rows], count > rows

    def check(self):
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self):
        self._reader = None

    def __arrow_c_schema__(self):
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        def batches():
            try:
                while (batch := self._next()) is not None:
                    yield batch
            except BaseException as error:
                self._failure = error
                raise

        reader = pa.RecordBatchReader.from_batches(self._schema, batches())
        stream = reader.__arrow_c_stream__(requested_schema)
        return stream


def _in_python(field):
    if str(field.type) == "fixed_size_binary[16]":
        return field.with_type(pa.uuid())
    if pa.types.is_timestamp(field.type) and field.type.tz == "+00:00":
        return field.with_type(pa.timestamp(field.type.unit, "UTC"))
    return field


def _sql_type(kind):
    if pa.types.is_timestamp(kind):
        digits = {"s": "(0)", "ms": "(3)", "us": "(6)", "ns": ""}[kind.unit]
        return ("TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ") + digits
    if pa.types.is_decimal(kind):
        return f"NUMERIC({kind.precision}, {kind.scale})"
    if pa.types.is_dictionary(kind):
        return _sql_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _sql_type(kind.value_type) + "[]"
    names = {
        "null": "Null",
        "bool": "BOOLEAN",
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "int32": "INTEGER",
        "int64": "BIGINT",
        "uint8": "TINYINT UNSIGNED",
        "uint16": "SMALLINT UNSIGNED",
        "uint32": "INTEGER UNSIGNED",
        "uint64": "BIGINT UNSIGNED",
        "float": "REAL",
        "double": "DOUBLE PRECISION",
        "string": "TEXT",
        "large_string": "TEXT",
        "string_view": "TEXT",
        "binary": "BYTEA",
        "large_binary": "BYTEA",
        "binary_view": "BYTEA",
        "fixed_size_binary[16]": "UUID",
        "extension<arrow.uuid>": "UUID",
        "extension<arrow.json>": "JSON",
        "date32[day]": "DATE",
        "time64[us]": "TIME",
        "time64[ns]": "TIME",
    }
    return names.get(str(kind), str(kind))


def _rows(batch):
    columns = []
    for field, array in zip(batch.schema, batch.columns):
        values = array
        if pa.types.is_timestamp(field.type):
            if field.type.unit == "ns":
                values = array.cast(pa.int64()).to_pylist()
                values = [value and value // 1000 for value in values]
                values = pa.array(values, pa.int64()).cast(pa.timestamp("us", field.type.tz))
        values = values.to_pylist()
        if str(field.type) == "fixed_size_binary[16]":
            values = [value and uuid.UUID(bytes=value) for value in values]
        if pa.types.is_timestamp(field.type) and field.type.tz:
            values = [value and value.astimezone(_UTC) for value in values]
        columns.append(values)
    return list(zip(*columns))


def stream(rows):
    if hasattr(rows, "__arrow_c_array__") and not hasattr(rows, "__arrow_c_stream__"):
        rows = pa.table(pa.record_batch(rows))
    return Stream(pa.RecordBatchReader.from_stream(rows))


def from_columns(names, columns):
    return Stream(pa.table([_array(column) for column in columns], names=names).to_reader())


def _array(column):
    if isinstance(column, tuple):
        import numpy

        kind, data = column
        return pa.array(numpy.frombuffer(data, kind), from_pandas=kind.startswith("<M8"))
    if isinstance(column, list):
        column = [value.item() if hasattr(value, "item") else value for value in column]
        first = next((value for value in column if value is not None), None)
        if isinstance(first, uuid.UUID):
            return pa.array([value and value.bytes for value in column], pa.binary(16)).cast(pa.uuid())
        if isinstance(first, decimal.Decimal):
            return pa.array(column)
        if any(isinstance(value, float) for value in column):
            column = [None if value is None else float(value) for value in column]
        if any(isinstance(value, int) and value >= 2**63 for value in column):
            return pa.array(column, pa.uint64())
        return pa.array(column)
    if hasattr(column, "__arrow_c_stream__"):
        return pa.chunked_array(column).combine_chunks()
    return pa.array(column)


def read_ipc(file):
    class File:
        closed = False

        def read(self, size):
            data = b""
            while len(data) < size and (part := file.read(size - len(data))):
                data += part
            return data

        def close(self):
            pass

    return Stream(pa.ipc.open_stream(pa.PythonFile(File(), "r")))


class IpcBodies:
    def __init__(self, table, rows, batch_rows):
        self._stream = stream(rows)
        self._schema = self._stream._schema.with_metadata({"fleetdb.table": table})
        self._batch_rows = batch_rows

    def __iter__(self):
        while (batch := self._stream.next_batch()) is not None:
            for begin in range(0, batch.num_rows, self._batch_rows):
                part = batch.slice(begin, self._batch_rows)
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, self._schema) as writer:
                    writer.write_batch(part.replace_schema_metadata(self._schema.metadata))
                yield sink.getvalue().to_pybytes(), part.num_rows
