"""What a write says."""

from typing import NamedTuple


class Written(NamedTuple):
    """What was written, and how durable it is.

    rows       -- the number of rows
    sequence   -- the place of the last batch in the order of all batches; None if there were no rows
    durability -- the level that was reached: "shared", "sync", "interval" or "os"; None if there were no rows
    """

    rows: int
    sequence: "int | None"
    durability: "str | None"
