"""Chooses representative values: one for each of the segments into which constants divide the values of a type."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pyarrow as pa

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def representatives(
    type_: pa.DataType, constants: Iterable[Hashable], prefixes: Iterable[str] = ()
) -> set[Hashable] | None:
    """NULL, and a value of every segment that comparisons with the constants and prefixes distinguish. A predicate over
    these comparisons that holds for all representatives holds for all values. None if the neighbours of the type's
    values are not known.

    >>> sorted(value for value in representatives(pa.int64(), [3, 5]) if value is not None)
    [2, 3, 4, 5, 6]
    >>> representatives(pa.float32(), [0.5]) is None
    True
    """
    neighbours = _neighbours(type_)
    if neighbours is None:
        return None
    ends = [*constants, *(end for prefix in prefixes for end in (prefix, _after_all(prefix)) if end is not None)]
    values = {value for end in ends or [_any(type_)] for value in neighbours(end)}
    return {None, *(value for value in values if _fits(value, type_))}


def _neighbours(type_: pa.DataType) -> Callable[[Any], Iterable[Hashable]] | None:
    """The function that maps a value to itself and its nearest values on both sides. For floats it adds the least and
    the greatest value and NaN; for strings it gives the least string, the value and the next greater one. None if the
    type has no such function."""
    if pa.types.is_boolean(type_):
        return lambda _: (False, True)
    if pa.types.is_integer(type_):
        return lambda value: (value - 1, value, value + 1)
    if pa.types.is_float64(type_):
        return _near_floats
    if pa.types.is_string(type_):
        return lambda value: ("", value, value + "\0")
    if pa.types.is_decimal(type_):
        return lambda value: _near_decimals(value, type_.scale)
    if pa.types.is_date(type_):
        return lambda value: _near_dates(value, datetime.timedelta(days=1))
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return lambda value: _near_dates(value, datetime.timedelta(microseconds=1))
    return None


def _near_floats(value: float) -> tuple[float, ...]:
    near = (math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf))
    return (-math.inf, *near, math.inf, math.nan)


def _near_decimals(value: decimal.Decimal, scale: int) -> tuple[decimal.Decimal, ...]:
    exact = decimal.Context(prec=100)
    unit = decimal.Decimal(1).scaleb(-scale)
    return (exact.subtract(value, unit), value, exact.add(value, unit))


def _near_dates(value: datetime.date, unit: datetime.timedelta) -> Iterable[datetime.date]:
    """A value and its neighbours; the first and the last value of the type have only one neighbour."""
    for distance in (-unit, 0 * unit, unit):
        with contextlib.suppress(OverflowError):
            yield value + distance


def _any(type_: pa.DataType) -> Hashable:
    """An arbitrary value, for an expression that is only tested for NULL."""
    calendar = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
    value: Hashable = pa.scalar("2000-01-01" if calendar else "0").cast(type_).as_py()
    return value


def _after_all(prefix: str) -> str | None:
    """The least string above all strings that begin with `prefix`, such as "ac" for "ab"; None without one."""
    for at in reversed(range(len(prefix))):
        following = ord(prefix[at]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[:at] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def _fits(value: Hashable, type_: pa.DataType) -> bool:
    """Whether a value belongs to the type; a neighbour of the greatest value may not."""
    try:
        pa.scalar(value, type_)
    except (pa.ArrowException, OverflowError):
        return False
    return True
