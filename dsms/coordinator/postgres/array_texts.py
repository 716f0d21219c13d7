"""PostgreSQL's text form of arrays: `{1,NULL,"a b"}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

#: The parts of an array: a brace, a comma, a quoted item, or an item without quotes.
_PARTS: Final = re.compile(r'\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|([^{},"\\\s](?:[^{},"\\]*[^{},"\\\s])?))\s*', re.DOTALL)
#: The bounds that may precede an array, as in `[0:2]={1,2,3}`.
_BOUNDS: Final = re.compile(r"\s*(\[[+-]?\d+:[+-]?\d+\])+=")
_PLAIN: Final = re.compile(r'[^\s{},"\\]+')
_DEEPEST: Final = 6

#: An item of an array: a text, NULL, or an array.
Item = str | None | list["Item"]


class NoArray(ValueError):
    """A text is not an array."""


def items_of(text: str) -> list[Item]:
    """The items of an array. Raises NoArray if the text is not an array.

    >>> items_of('{1,NULL,"a, \\\\"b\\\\"","NULL"}'), items_of("{{1},{2}}"), items_of("{}")
    (['1', None, 'a, "b"', 'NULL'], [['1'], ['2']], [])
    """
    bounds = _BOUNDS.match(text)
    outer: list[Item] = []
    open_, at, expected = [outer], bounds.end() if bounds else 0, True  # whether an item may come next
    while at < len(text):
        if (part := _PARTS.match(text, at)) is None or (len(open_) == 1 and outer):
            raise NoArray(f'"{text}" is not an array: write it as {{1,2}}')
        at = part.end()
        match part[1]:
            case "{" if expected and len(open_) <= _DEEPEST:
                inner: list[Item] = []
                open_[-1].append(inner)
                open_.append(inner)
            case "}" if len(open_) > 1 and (not expected or not open_[-1]):
                open_.pop()
                expected = False
            case "," if not expected and len(open_) > 1:
                expected = True
            case None if expected and len(open_) > 1:
                open_[-1].append(_unescaped(part[2]) if part[2] is not None else _plain(part[3]))
                expected = False
            case _:
                raise NoArray(f'"{text}" is not an array: write it as {{1,2}}')
    if len(open_) > 1 or not outer or not isinstance(outer[0], list):
        raise NoArray(f'"{text}" is not an array: write it as {{1,2}}')
    return outer[0]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _plain(text: str) -> str | None:
    return None if text.lower() == "null" else text


def array_text(items: Sequence[object], write: Callable[[object], str]) -> str:
    """An array as text; `write` writes an item that is neither NULL nor an array.

    >>> array_text([1, None, "a b", "NULL", ""], str), array_text([[1], [2]], str)
    ('{1,NULL,"a b","NULL",""}', '{{1},{2}}')
    """
    return "{" + ",".join(_item(item, write) for item in items) + "}"


def _item(item: object, write: Callable[[object], str]) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, list | tuple):
        return array_text(item, write)
    text = write(item)
    if _PLAIN.fullmatch(text) and text.lower() != "null":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
