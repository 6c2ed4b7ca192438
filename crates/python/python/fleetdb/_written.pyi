from typing import NamedTuple

class Written(NamedTuple):
    rows: int
    sequence: int | None
    durability: str | None
