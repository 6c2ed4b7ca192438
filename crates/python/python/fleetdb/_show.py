"""Rows as a table: of text, or of HTML in a notebook."""

import os
import shutil
import unicodedata

# The rows and the characters of a value that are shown.
ROWS = 40
_VALUE = 60


def size():
    """The number of rows to show; the environment variable FLEETDB_ROWS overrides it."""
    try:
        return max(1, int(os.environ.get("FLEETDB_ROWS", ROWS)))
    except ValueError:
        return ROWS


def _text(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(element) for element in value) + "]"
    return str(value)


def _cut(text):
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + "…"


def _width(text):
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _is_number(name):
    return name.startswith(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "NUMERIC"))


def table(names, types, rows, has_more):
    """The rows as a text of aligned columns."""
    cells = [[_cut(_text(value)) for value in row] for row in rows]
    types = [name.lower() for name in types]
    widths = [
        max(_width(text) for text in (names[place], types[place], *(row[place] for row in cells)))
        for place in range(len(names))
    ]
    shown, left_out = _fitting(widths)
    dots = left_out > 0

    def line(left, between, right, fill="─"):
        parts = [fill * (widths[place] + 2) for place in shown] + ([fill * 3] if dots else [])
        return left + between.join(parts) + right

    def row(texts, align):
        parts = []
        for place in shown:
            pad = widths[place] - _width(texts[place])
            before = {"<": 0, ">": pad, "^": pad // 2}[align(place)]
            parts.append(" " * (before + 1) + texts[place] + " " * (pad - before + 1))
        return "│" + "│".join(parts + ([" … "] if dots else [])) + "│"

    of_values = lambda place: ">" if _is_number(types[place].upper()) else "<"
    lines = [
        line("┌", "┬", "┐"),
        row(names, lambda _: "^"),
        row(types, lambda _: "^"),
        line("├", "┼", "┤"),
        *(row(texts, of_values) for texts in cells),
        line("└", "┴", "┘"),
    ]
    return "\n".join([*lines, footer(len(rows), has_more, len(names), left_out)])


def footer(rows, has_more, columns, left_out=0):
    count = f"more than {rows} rows" if has_more else f"{rows} row" + ("" if rows == 1 else "s")
    shown = f", {columns - left_out} shown" if left_out else ""
    return f"{count}, {columns} column{'' if columns == 1 else 's'}{shown}"


def _fitting(widths):
    """The columns that fit into the terminal, and how many do not."""
    room = max(shutil.get_terminal_size((120, 24)).columns, 40) - 1
    if sum(width + 3 for width in widths) <= room:
        return range(len(widths)), 0
    room -= 4
    count = 0
    while count < len(widths) and widths[count] + 3 <= room:
        room -= widths[count] + 3
        count += 1
    count = max(count, 1)
    return range(count), len(widths) - count


def html(names, types, rows, has_more):
    """The rows as a table of HTML."""
    from html import escape

    def cell(text, tag, style=""):
        return f"<{tag}{style}>{escape(text)}</{tag}>"

    right = ' style="text-align: right"'
    styles = [right if _is_number(name) else ' style="text-align: left"' for name in types]
    heads = "".join(
        f"<th{style}>{escape(name)}<br><small>{escape(kind.lower())}</small></th>"
        for name, kind, style in zip(names, types, styles)
    )
    body = "".join(
        "<tr>" + "".join(cell(_cut(_text(value)), "td", style) for value, style in zip(row, styles)) + "</tr>"
        for row in rows
    )
    count = footer(len(rows), has_more, len(names))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table><small>{count}</small>"
