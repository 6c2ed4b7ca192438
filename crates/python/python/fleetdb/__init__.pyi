from os import PathLike

from . import dbapi as dbapi
from ._connection import Batch as Batch
from ._connection import Connection as Connection
from ._connection import Prepared as Prepared
from ._errors import CancelledError as CancelledError
from ._errors import ClosedError as ClosedError
from ._errors import DamagedError as DamagedError
from ._errors import DatabaseError as DatabaseError
from ._errors import DataError as DataError
from ._errors import Error as Error
from ._errors import IntegrityError as IntegrityError
from ._errors import InterfaceError as InterfaceError
from ._errors import InternalError as InternalError
from ._errors import LineError as LineError
from ._errors import NotSupportedError as NotSupportedError
from ._errors import OperationalError as OperationalError
from ._errors import ProgrammingError as ProgrammingError
from ._errors import RetryError as RetryError
from ._errors import Warning as Warning
from ._result import Result as Result
from ._tables import Aggregate as Aggregate
from ._tables import Column as Column
from ._tables import Container as Container
from ._tables import Table as Table
from ._types import Durability
from ._written import Written as Written

__all__ = [
    "Aggregate",
    "Batch",
    "CancelledError",
    "ClosedError",
    "Column",
    "Connection",
    "Container",
    "DamagedError",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "LineError",
    "NotSupportedError",
    "OperationalError",
    "Prepared",
    "ProgrammingError",
    "Result",
    "RetryError",
    "Table",
    "Warning",
    "Written",
    "__version__",
    "connect",
]

__version__: str

def connect(
    database: str | PathLike[str] = ":memory:",
    *,
    memory_limit: int | str | None = None,
    durability: Durability | None = None,
    read_only: bool = False,
    token: str | None = None,
    timeout: float | None = None,
    progress: bool | None = None,
) -> Connection: ...
def __dir__() -> list[str]: ...
