from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ._connection import Connection
from ._result import Result
from ._types import Durability, Rows, Time, Value
from ._written import Written

class Column(NamedTuple):
    name: str
    type: str
    role: Literal["key", "time", "field"]
    nullable: bool

class Aggregate(NamedTuple):
    count: int  # type: ignore[assignment]
    min: float | None
    max: float | None
    sum: float | None
    @property
    def avg(self) -> float | None: ...

class Table:
    name: str
    def __init__(self, connection: Connection, name: str) -> None: ...
    def __getitem__(self, key: Value) -> Container: ...
    def schema(self) -> list[Column]: ...
    def count(self) -> int: ...
    def last(self) -> Result: ...
    def insert(
        self,
        rows: Rows,
        *,
        time: str | Literal[False] | None = None,
        key: str | Sequence[str] | None = None,
        create: bool = False,
        durability: Durability | None = None,
        batch_rows: int = 100_000,
    ) -> Written: ...

class Container:
    table: str
    key: tuple[Any, ...]
    def __init__(self, connection: Connection, table: str, key: Sequence[Value]) -> None: ...
    def last(self) -> dict[str, Any] | None: ...
    def __getitem__(self, times: slice[Time | None, Time | None, None]) -> Result: ...
    def range(
        self, start: Time | None = None, stop: Time | None = None, columns: str | Sequence[str] | None = None
    ) -> Result: ...
    def aggregate(self, column: str, start: Time | None = None, stop: Time | None = None) -> Aggregate: ...
    def append(self, time: Time, fields: Mapping[str, Value] | None = None, /, **named: Value) -> Written: ...
