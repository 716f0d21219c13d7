"""Intervals as PostgreSQL writes and sends them."""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from typing import Final

_MICROSECOND: Final = timedelta(microseconds=1)
_ISO: Final = re.compile(r"(-?)P(?:(\d+)D)?(?:T(\d+)(?:\.(\d+))?S)?")


def length_of(value: object) -> timedelta:
    """The length of an interval in a row: a timedelta, or its text in ISO 8601. Raises ValueError for other values.

    >>> length_of("-P1DT0.5S") == timedelta(days=-1, seconds=-0.5) == length_of(timedelta(days=-1, seconds=-0.5))
    True
    """
    if isinstance(value, timedelta):
        return value
    if (found := _ISO.fullmatch(str(value))) is None:
        raise ValueError(f"{value} is not an interval")
    sign, days, seconds, fraction = found.groups("0")
    micros = int(fraction[:6].ljust(6, "0"))
    length = timedelta(days=int(days), seconds=int(seconds), microseconds=micros)
    return -length if sign == "-" else length


def interval_text(length: timedelta) -> str:
    """An interval in PostgreSQL's style.

    >>> interval_text(timedelta(days=2, seconds=3661.5)), interval_text(timedelta(days=-1, seconds=-1))
    ('2 days 01:01:01.5', '-1 days -00:00:01')
    >>> interval_text(timedelta(days=1)), interval_text(timedelta())
    ('1 day', '00:00:00')
    """
    days, micros = _days_and_micros(length)
    seconds, rest = divmod(abs(micros), 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    clock = f"{'-' * (micros < 0)}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
    named = f"{days} day{'' if days == 1 else 's'}" if days else ""
    return " ".join(filter(None, [named, clock if micros or not days else ""]))


def packed_interval(length: timedelta) -> bytes:
    """An interval in binary form: microseconds, days and months."""
    days, micros = _days_and_micros(length)
    return struct.pack("!qii", micros, days, 0)


def _days_and_micros(length: timedelta) -> tuple[int, int]:
    """Days and the rest in microseconds, both of the same sign."""
    whole = abs(length) // _MICROSECOND
    sign = -1 if length < timedelta() else 1
    return sign * (whole // 86_400_000_000), sign * (whole % 86_400_000_000)


def unpacked_interval(value: bytes) -> str:
    """The text of an interval in binary form. Raises struct.error for other than 16 bytes.

    >>> unpacked_interval(struct.pack("!qii", 5, -2, 1))
    '1 months -2 days 5 microseconds'
    """
    micros, days, months = struct.unpack("!qii", value)
    return f"{months} months {days} days {micros} microseconds"
