"""Representative values: constants cut the values of a type into segments, and each segment has one here."""

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
    kind: pa.DataType, constants: Iterable[Hashable], prefixes: Iterable[str] = ()
) -> set[Hashable] | None:
    """NULL, and a value of every segment that comparisons with constants and prefixes of strings tell apart: what holds
    for these holds for all. None for a type whose values have no neighbours that we know.

    >>> sorted(one for one in representatives(pa.int64(), [3, 5]) if one is not None)
    [2, 3, 4, 5, 6]
    >>> representatives(pa.float32(), [0.5]) is None
    True
    """
    around = _around(kind)
    if around is None:
        return None
    ends = [*constants, *(end for prefix in prefixes for end in (prefix, _after_all(prefix)) if end is not None)]
    found = {value for end in ends or [_any(kind)] for value in around(end)}
    return {None, *(value for value in found if _fits(value, kind))}


def _around(kind: pa.DataType) -> Callable[[Any], Iterable[Hashable]] | None:
    """What gives a value with the nearest ones on both sides; of floats also the ends, of strings the least."""
    if pa.types.is_boolean(kind):
        return lambda _: (False, True)
    if pa.types.is_integer(kind):
        return lambda value: (value - 1, value, value + 1)
    if pa.types.is_float64(kind):
        return _floats
    if pa.types.is_string(kind):
        return lambda value: ("", value, value + "\0")
    if pa.types.is_decimal(kind):
        return lambda value: _decimals(value, kind.scale)
    if pa.types.is_date(kind):
        return lambda value: _moved(value, datetime.timedelta(days=1))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return lambda value: _moved(value, datetime.timedelta(microseconds=1))
    return None


def _floats(value: float) -> tuple[float, ...]:
    near = (math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf))
    return (-math.inf, *near, math.inf, math.nan)


def _decimals(value: decimal.Decimal, scale: int) -> tuple[decimal.Decimal, ...]:
    exact = decimal.Context(prec=100)
    unit = decimal.Decimal(1).scaleb(-scale)
    return (exact.subtract(value, unit), value, exact.add(value, unit))


def _moved(value: datetime.date, unit: datetime.timedelta) -> Iterable[datetime.date]:
    """A value and its neighbours; the first and the last one of all have one."""
    for distance in (-unit, 0 * unit, unit):
        with contextlib.suppress(OverflowError):
            yield value + distance


def _any(kind: pa.DataType) -> Hashable:
    """Some value, for a type of which nothing but NULL is asked."""
    calendar = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    value: Hashable = pa.scalar("2000-01-01" if calendar else "0").cast(kind).as_py()
    return value


def _after_all(prefix: str) -> str | None:
    """The least string above all that begin with `prefix`; None where there is none."""
    for at in reversed(range(len(prefix))):
        following = ord(prefix[at]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[:at] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def _fits(value: Hashable, kind: pa.DataType) -> bool:
    """Whether a value is one of the type: a neighbour of the greatest is not."""
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True
