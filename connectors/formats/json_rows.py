"""Decodes single rows that the system has written as JSON, without columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta

from connectors.formats.values import integer_range

#: A TIMESTAMP as the encoder writes it.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class JsonRows:
    """The law: the rows are those that `JsonDecoder` returns. Decoding a few of them takes a tenth of the time. It
    knows only values as the system writes them, of these types: integers, DOUBLE without NaN and infinity, BOOLEAN,
    VARCHAR, DATE and TIMESTAMP.

    >>> rows = JsonRows.of(pa.schema([("k", pa.int32()), ("at", pa.timestamp("us"))]))
    >>> rows.decoded([b'{"k":1,"at":"2026-05-01T12:00:00Z"}'])
    [(1, datetime.datetime(2026, 5, 1, 12, 0))]
    >>> rows.decoded([b'{"k":"1","at":null}']) is None
    True
    """

    def __init__(self, struct: type[msgspec.Struct], converted: Sequence[tuple[int, Callable[[str], object]]]) -> None:
        self._decode, self._converted = msgspec.json.Decoder(struct).decode, converted

    @classmethod
    def of(cls, schema: pa.Schema) -> JsonRows | None:
        """The decoder of the rows of a schema; None if it has other types."""
        types = [_member(field) for field in schema]
        if None in types:
            return None
        members = [(f"c{at}", each) for at, each in enumerate(types)]
        renamed = {f"c{at}": name for at, name in enumerate(schema.names)}
        struct = msgspec.defstruct("Row", members, rename=renamed, gc=False)
        found = ((at, _CONVERTED.get(kind)) for at, kind in enumerate(schema.types))
        return cls(struct, [(at, convert) for at, convert in found if convert is not None])

    def decoded(self, values: Sequence[bytes]) -> list[tuple[Any, ...]] | None:
        """The rows; None if one of the values is not certainly a row: then `JsonDecoder` has to decide."""
        try:
            return [self._row(value) for value in values]
        except ValueError:  # from msgspec, or from the conversion of a text
            return None

    def _row(self, value: bytes) -> tuple[Any, ...]:
        row = msgspec.structs.astuple(self._decode(value))
        if not self._converted:
            return row
        listed = list(row)
        for at, convert in self._converted:
            listed[at] = None if listed[at] is None else convert(listed[at])
        return tuple(listed)


def _member(field: pa.Field[Any]) -> Any:
    kind = _integer(field.type) if pa.types.is_integer(field.type) else _KINDS.get(field.type)
    return kind | None if kind is not None and field.nullable else kind


def _integer(declared: pa.DataType) -> Any:
    least, greatest = integer_range(declared)
    return Annotated[int, Meta(ge=least, le=greatest)]


def _time(text: str) -> dt.datetime:
    if _TIME.fullmatch(text) is None:
        raise ValueError(text)
    return dt.datetime.fromisoformat(text[:-1])


def _day(text: str) -> dt.date:
    if _DAY.fullmatch(text) is None:
        raise ValueError(text)
    return dt.date.fromisoformat(text)


_KINDS: dict[pa.DataType, Any] = {
    pa.bool_(): bool,
    pa.float64(): float,
    pa.string(): str,
    pa.date32(): str,
    pa.timestamp("us"): str,
}
_CONVERTED: dict[pa.DataType, Callable[[str], object]] = {pa.date32(): _day, pa.timestamp("us"): _time}
