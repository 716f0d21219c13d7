"""Guesses the columns of a source from a sample of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from connectors.formats.calendar_text import days, microseconds
from operators.core.calendar_range import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US

_LONG = pa.int64()


@dataclass(frozen=True)
class Guess:
    """A column for a field. `kind` is a type that can read all sampled values; None if no type can, or all are NULL."""

    name: str
    kind: pa.DataType | None
    nullable: bool


def guessed_columns(rows: Sequence[Mapping[str, object]]) -> list[Guess]:
    """A column for each field of the JSON objects, in the order of first occurrence. A field that has a value in each
    object is NOT NULL.

    >>> rows = [{"a": 1, "d": "2026-11-27"}, {"a": 2.5, "d": None, "x": []}, {"a": 3, "d": "2026-11-28", "x": "y"}]
    >>> [(guess.name, str(guess.kind), guess.nullable) for guess in guessed_columns(rows)]
    [('a', 'double', False), ('d', 'date32[day]', True), ('x', 'None', True)]
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return [_column(name, [row.get(name) for row in rows]) for name in names]


def _column(name: str, values: Sequence[object]) -> Guess:
    return Guess(name, kind_of(values), None in values)


def kind_of(values: Iterable[object]) -> pa.DataType | None:
    """A type that can read all of the JSON values except NULLs; None if no type can, or if all are NULL.

    >>> str(kind_of([{"n": 1}, {"n": None, "t": ["x"]}])), str(kind_of(["2026-11-27T07:00:00Z"])), kind_of([True, 1])
    ('struct<n: int64, t: list<item: string>>', 'timestamp[us]', None)
    """
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {bool}:
        return pa.bool_()
    if kinds and kinds <= {int, float}:
        return _number([value for value in present if isinstance(value, int | float)])
    if kinds == {str}:
        return _text([value for value in present if isinstance(value, str)])
    if kinds == {list}:
        item = kind_of(item for value in present if isinstance(value, list) for item in value)
        return None if item is None else pa.list_(item)
    if kinds == {dict}:
        return _struct([value for value in present if isinstance(value, dict)])
    return None


def _number(values: Sequence[int | float]) -> pa.DataType | None:
    if any(isinstance(value, float) for value in values):
        return pa.float64()
    if all(-(2**63) <= value < 2**63 for value in values):
        return _LONG
    return pa.decimal128(38, 0) if all(abs(value) < 10**38 for value in values) else None


def _text(values: Sequence[str]) -> pa.DataType:
    if all((day := days(value)) is not None and FIRST_DAY <= day <= LAST_DAY for value in values):
        return pa.date32()
    if all((at := microseconds(value)) is not None and FIRST_US <= at <= LAST_US for value in values):
        return pa.timestamp("us")
    return pa.string()


def _struct(values: Sequence[Mapping[str, object]]) -> pa.DataType | None:
    """A struct of the fields whose names are identifiers of SQL; the others are ignored when records are read."""
    fields = [(guess.name, guess.kind) for guess in guessed_columns(values)]
    known = [(name, kind) for name, kind in fields if kind is not None and name.isidentifier()]
    return pa.struct(known) if known else None
