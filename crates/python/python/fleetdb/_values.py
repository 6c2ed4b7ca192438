"""Values of Python for SQL, and the parameters in the text of a statement."""

import re
import sys
from datetime import date, datetime, time, timedelta, timezone

# A text in single quotes, an identifier, a comment, a text in dollars, a parameter, or the end of a
# statement. Everything else is passed over.
_PIECES = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n]*
    | /\*.*?\*/
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)
    | (?P<name>\$[A-Za-z_]\w*)
    | (?P<number>\$\d+)
    | (?P<mark>\?\??)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)

# SQL's names of the units of NumPy's intervals.
_UNITS = {
    "Y": "years",
    "M": "months",
    "W": "weeks",
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}


def numbered(text, parameters):
    """The statement with parameters `$1`, `$2`, ..., and their values in this order.

    `parameters` is a sequence for `$1` or `?`, or a mapping for `$name`. `??` stands for the operator `?`.
    """
    if isinstance(parameters, dict):
        return _named(text, parameters)
    values = [plain(value) for value in parameters]
    if any(piece["number"] for piece in _PIECES.finditer(text)):
        return text, values
    count = 0

    def replaced(piece):
        nonlocal count
        if piece["mark"] == "??":
            return "?"
        if piece["mark"] == "?":
            count += 1
            return f"${count}"
        return piece[0]

    return _PIECES.sub(replaced, text), values


def _named(text, parameters):
    from ._errors import error_of

    names = []

    def replaced(piece):
        name = piece["name"]
        if name is None:
            return piece[0]
        if name[1:] not in parameters:
            raise error_of("42P02", f"there is no parameter {name}")
        if name[1:] not in names:
            names.append(name[1:])
        return f"${names.index(name[1:]) + 1}"

    text = _PIECES.sub(replaced, text)
    unused = [name for name in parameters if name not in names]
    if unused:
        raise error_of("42P02", f"the statement has no parameter ${unused[0]}")
    return text, [plain(parameters[name]) for name in names]


def statements(text):
    """The statements of a text."""
    found, begin = [], 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()])
            begin = piece.end()
    found.append(text[begin:])
    return [statement for statement in found if not _is_blank(statement)]


def _is_blank(statement):
    return not re.sub(r"--[^\n]*|/\*.*?\*/", "", statement, flags=re.DOTALL).strip()


def plain(value):
    """A value as None, a boolean, a number or a text, which is the form that SQL gives it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return _of_number(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if isinstance(value, datetime):
        # pandas' NULL is the only one that differs from itself.
        if value != value:
            return None
        return str(value if value.tzinfo is None else value.astimezone(timezone.utc))
    if isinstance(value, time) and value.tzinfo is not None:
        raise TypeError(f"{value} has a zone, which a time of day cannot have")
    if isinstance(value, (date, time)):
        return str(value)
    if isinstance(value, timedelta):
        # Those of pandas also have nanoseconds.
        seconds = f"{value.seconds} seconds {value.microseconds} microseconds"
        return f"{value.days} days {seconds} {getattr(value, 'nanoseconds', 0)} nanoseconds"
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(_element(plain(element)) for element in value) + "}"
    return _of_libraries(value)


def _of_number(value):
    # Subclasses of other libraries, such as numpy.float64, become Python's own.
    if isinstance(value, float):
        return float(value)
    return value


def _of_libraries(value):
    kind = type(value).__name__
    if kind == "NAType":
        return None
    if kind in ("datetime64", "timedelta64"):
        # NaT is the only one that differs from itself.
        if value != value:
            return None
        return str(in_units(value)) if kind == "datetime64" else _interval(value)
    if kind == "ndarray":
        return plain(list(value) if value.ndim else value[()])
    if kind in ("Decimal", "UUID"):
        return str(value)
    if hasattr(value, "item"):
        item = value.item()
        if type(item) is not type(value):
            return plain(item)
    raise TypeError(f"a parameter cannot be of type {type(value).__name__}")


def in_units(times):
    """A time of NumPy's, or an array of them, in a unit of the engine's: a second, or a part of it."""
    unit, _ = sys.modules["numpy"].datetime_data(times.dtype)
    if unit in ("ps", "fs", "as"):
        unit = "ns"
    elif unit not in ("s", "ms", "us", "ns"):
        unit = "s"
    return times.astype(f"M8[{unit}]", copy=False)


def _interval(value):
    unit, count = sys.modules["numpy"].datetime_data(value.dtype)
    if unit not in _UNITS:
        raise TypeError(f"a parameter cannot be a timedelta64 in the unit {unit}")
    return f"{int(value.astype('i8')) * count} {_UNITS[unit]}"


def _element(value):
    """An element in the text form of an array."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, str):
        if value.startswith("{") or not (value and re.fullmatch(r"[^\s{},\"\\]+", value)) or value.lower() == "null":
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return value
    return str(value)


def time_text(value):
    """A bound of time as a text; None stays None."""
    if value is None or isinstance(value, str):
        return value
    text = plain(value)
    if not isinstance(text, str):
        raise TypeError(f"a time is a datetime or a text, not {value!r}")
    return text


def key_of(key):
    """The values of a key: of one column, or of several in a tuple or a list."""
    values = key if isinstance(key, (tuple, list)) else [key]
    return [plain(value) for value in values]


def quoted(name):
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def size_of(limit):
    """A number of bytes: a number, or a text as in "512MiB"."""
    if limit is None or isinstance(limit, int):
        return limit
    match = re.fullmatch(r"\s*(\d+)\s*([KMGT]i?B)?\s*", limit)
    if match is None:
        raise ValueError(f"'{limit}' is no size: write bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB")
    number, unit = int(match[1]), match[2]
    if unit is None:
        return number
    return number * (1024 if unit[1] == "i" else 1000) ** ("KMGT".index(unit[0]) + 1)
