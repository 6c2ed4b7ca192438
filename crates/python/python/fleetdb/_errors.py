"""The exceptions of the package: PEP 249's, and one for each thing that a caller should do about it."""


class Warning(Exception):
    """What a user should know although a statement succeeded."""


class Error(Exception):
    """An error of the package.

    `code` is its SQLSTATE, `hint` says what to do about it, `position` is the place in the text of the
    statement, in characters from 1. Each is None if it is not known. `kind` says what to do: "retry" later,
    change the "input"; "closed", "damaged", "io" and "bug" are for operators.
    """

    def __init__(self, message, *, code=None, hint=None, position=None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.position = position
        self.statement = None

    @property
    def kind(self):
        code = self.code or ""
        if code in ("40001", "57014") or code.startswith("53"):
            return "retry"
        return {"57P03": "closed", "XX001": "damaged", "58030": "io", "XX000": "bug"}.get(code, "input")

    def __str__(self):
        parts = [self.message]
        if self.statement is not None and self.position is not None:
            parts.extend(_marked(self.statement, self.position))
        if self.hint is not None:
            parts.append(f"HINT: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self):
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind, args, state):
    error = kind(*args)
    error.__dict__.update(state)
    return error


class InterfaceError(Error):
    """The package was used in a way that it does not support."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is wrong: out of range, or no value of its type."""


class OperationalError(DatabaseError):
    """The database cannot do it, which is not the statement's fault."""


class IntegrityError(DatabaseError):
    """A row violates NOT NULL, a CHECK or a primary key."""


class InternalError(DatabaseError):
    """The database violated one of its own invariants: report it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its syntax, or a name in it."""


class NotSupportedError(DatabaseError):
    """FleetDB does not support this."""


class RetryError(OperationalError):
    """The request is valid: try it again later."""


class CancelledError(RetryError):
    """The statement was cancelled, or took longer than `statement_timeout`."""


class ClosedError(OperationalError):
    """The connection or the database is closed."""


class DamagedError(OperationalError):
    """Stored data is damaged. The message says what is lost and how to continue."""


class LineError(DataError):
    """Lines of line protocol were wrong. The others were written: `written` says so.

    `lines` has the first wrong lines: number, reason and text of each. `dropped` counts all of them.
    """

    def __init__(self, message, *, written=None, dropped=0, lines=(), code="22P02"):
        super().__init__(message, code=code)
        self.written = written
        self.dropped = dropped
        self.lines = list(lines)


_EXACT = {
    "57014": CancelledError,
    "40001": RetryError,
    "57P03": ClosedError,
    "XX001": DamagedError,
    "XX000": InternalError,
}
_BY_CLASS = {
    "0A": NotSupportedError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "25": ProgrammingError,
    "26": ProgrammingError,
    "28": OperationalError,
    "34": ProgrammingError,
    "3B": ProgrammingError,
    "3F": ProgrammingError,
    "42": ProgrammingError,
    "53": RetryError,
    "54": OperationalError,
    "55": OperationalError,
    "58": OperationalError,
}


def error_of(code, message, hint=None, position=None):
    """The exception for a SQLSTATE."""
    kind = _EXACT.get(code) or _BY_CLASS.get(code[:2], DatabaseError)
    return kind(message, code=code, hint=hint, position=position)


def after(error, rows):
    """The error of a batch, or of reading it, after rows that were written before it."""
    if rows and isinstance(error, Error):
        error.message = f"after {rows} rows, which are written: {error.message}"
        error.args = (error.message,)
    return error


def _marked(statement, position):
    """The line of a statement with a mark below the position, as psql shows it."""
    before = statement[: position - 1]
    number = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1)
    lines = statement.split("\n")
    line = lines[number - 1] if number <= len(lines) else ""
    if len(line) > 200:
        return []
    head = f"LINE {number}: "
    return [head + line, " " * (len(head) + column) + "^"]
