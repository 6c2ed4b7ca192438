"""Types that only type checkers see."""

import datetime
import decimal
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

Durability: TypeAlias = Literal["sync", "interval", "os", "shared", "local"]
Precision: TypeAlias = Literal["ns", "us", "ms", "s", "m", "h"]

class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

# A frame of pandas or polars, anything else of Arrow's, columns by name, or rows.
Rows: TypeAlias = ArrowStream | ArrowArray | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Iterable[Sequence[Any]]
Value: TypeAlias = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | decimal.Decimal
    | uuid.UUID
    | Sequence[Any]
    | Any
)
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]
Time: TypeAlias = str | datetime.datetime | datetime.date
