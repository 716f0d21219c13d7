"""The shape of a statement's text: the text without the values of its literals, so that statements that differ only in
values need to be parsed only once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

#: A quoted name, the beginning of something that may hide literals (a comment, a parameter, a text with a prefix or in
#: dollars), a text, or a whole number.
_PARTS = re.compile(
    r"""(?P<name>"(?:[^"]|"")*") | (?P<hiding>--|/\*|\$|\\|[\w&]') | '(?P<text>(?:[^']|'')*)'
    | (?<![\w.])(?P<number>[0-9]{1,19})(?![\w.])""",
    re.VERBOSE,
)
_MOST_LITERALS, _LONGEST = 1_000, 20_000
_DIGITS = re.compile(r"-?[0-9]{1,18}")


class TextShape(NamedTuple):
    """The text with each literal replaced by an empty one of its kind, and the values of the literals in order."""

    text: str
    values: tuple[int | str, ...]


def shape_of(sql: str) -> TextShape | None:
    """The shape of a statement; None for a text in which literals are hard to tell, or that has too many.

    >>> shape_of("SELECT v FROM t WHERE k = 7 AND name = 'O''Hara'")
    TextShape(text="SELECT v FROM t WHERE k = 0 AND name = ''", values=(7, "O'Hara"))
    >>> shape_of("SELECT 1 -- 2") is None
    True
    """
    if len(sql) > _LONGEST or not _encodable(sql):
        return None
    values: list[int | str | None] = []

    def emptied(found: re.Match[str]) -> str:
        if found.lastgroup == "name":
            return found[0]
        values.append(_value(found))
        return "0" if found.lastgroup == "number" else "''"

    text = _PARTS.sub(emptied, sql)
    known = tuple(value for value in values if value is not None)
    return TextShape(text, known) if len(known) == len(values) <= _MOST_LITERALS else None


def _value(found: re.Match[str]) -> int | str | None:
    """The value of a literal; None for what may hide literals."""
    match found.lastgroup:
        case "number":
            return int(found["number"])
        case "text":
            return found["text"].replace("''", "'")
        case _:
            return None


def _encodable(text: str) -> bool:
    """Whether a text is valid Unicode: half of a surrogate pair cannot be encoded."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_numbers(shape: str) -> str:
    """The text of a shape whose literals have their numbers as values, from 1 on.

    >>> with_numbers("SELECT v FROM t WHERE k = 0 AND name = ''")
    "SELECT v FROM t WHERE k = 1 AND name = '2'"
    """
    numbers = count(1)

    def numbered(found: re.Match[str]) -> str:
        if found.lastgroup == "name":
            return found[0]
        return str(next(numbers)) if found.lastgroup == "number" else f"'{next(numbers)}'"

    return _PARTS.sub(numbered, shape)


def literal_value(marker: int | str, values: Sequence[int | str]) -> int | str:
    """The value that stands in a text for a literal of `with_numbers`. A literal of another kind than the marker is
    cast to it; it stays a text if it is not a number.

    >>> literal_value(-2, (7, 8)), literal_value("1", ("a",)), literal_value(1, ("7",)), literal_value("1", (7,))
    (-8, 'a', 7, '7')
    """
    value = values[abs(int(marker)) - 1]
    if isinstance(marker, str):
        return str(value)
    number = value if isinstance(value, int) else int(value) if _DIGITS.fullmatch(value) else None
    if number is None:
        return value
    return -number if marker < 0 else number
