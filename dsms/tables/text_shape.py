"""The shape of a statement's text: the text without the values of its literals, so that statements that differ only in
values need to be parsed only once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

#: A quoted name, the beginning of something that may hide literals (a comment, a parameter, a text with a prefix or in
#: dollars), a text, or a whole number, in this order of the groups.
_PARTS = re.compile(
    r"""("(?:[^"]|"")*") | (--|/\*|\$|\\|[\w&]') | '((?:[^']|'')*)' | (?<![\w.])([0-9]{1,19})(?![\w.])""", re.VERBOSE
)
_MOST_LITERALS, _LONGEST = 1_000, 20_000


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
    values: list[int | str] = []
    for found in _PARTS.finditer(sql):
        if found[2] is not None or len(values) > _MOST_LITERALS:
            return None
        if found[1] is None:
            values.append(int(found[4]) if found[4] is not None else found[3].replace("''", "'"))
    return TextShape(_PARTS.sub(_emptied, sql), tuple(values))


def _encodable(text: str) -> bool:
    """Whether a text is valid Unicode: half of a surrogate pair cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _emptied(found: re.Match[str]) -> str:
    return found[0] if found[1] is not None else "0" if found[4] is not None else "''"


def with_numbers(shape: str) -> str:
    """The text of a shape whose literals have their numbers as values, from 1 on.

    >>> with_numbers("SELECT v FROM t WHERE k = 0 AND name = ''")
    "SELECT v FROM t WHERE k = 1 AND name = '2'"
    """
    numbers = count(1)

    def numbered(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[0]
        return str(next(numbers)) if found[4] is not None else f"'{next(numbers)}'"

    return _PARTS.sub(numbered, shape)


def literal_value(marker: int | str, values: Sequence[int | str]) -> int | str:
    """The value that stands in a text for a literal of `with_numbers`.

    >>> literal_value(-2, (7, 8)), literal_value("1", ("a",))
    (-8, 'a')
    """
    value = values[abs(int(marker)) - 1]
    return -value if isinstance(marker, int) and isinstance(value, int) and marker < 0 else value
