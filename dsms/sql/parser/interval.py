"""Parses interval literals into months, days and microseconds."""

import re
from decimal import Decimal

from sqlglot import exp

from dsms.model.position import error_at
from operators.expressions import Interval

_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
_DAYS = {"DAY": 1, "WEEK": 7}
#: The months of 9999 years, the whole range of timestamps.
_MAX_MONTHS = 12 * 9_999
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SHORT = {"S": "SECOND", "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY"}
_SHORT |= {"MS": "MILLISECOND", "US": "MICROSECOND", "W": "WEEK", "MON": "MONTH", "Y": "YEAR"}
_CLOCK = re.compile(r"\s*([+-]?)(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d+)?))?\s*(?:,|and\b)?")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*(?:,|and\b)?")
UNITS = (*_MICROSECONDS, *_DAYS, *_MONTHS)


def parse_interval(node: exp.Interval) -> Interval:
    """Parses an interval literal. Raises SqlError if it is invalid, or longer than 9999 years.

    >>> import sqlglot
    >>> parse_interval(sqlglot.parse_one("INTERVAL '1 day 2 hours'"))
    Interval(months=0, days=1, microseconds=7200000000)
    >>> parse_interval(sqlglot.parse_one("INTERVAL 5 MINUTES")).microseconds // 10**6
    300
    >>> parse_interval(exp.Interval(this=exp.Literal.string("1 day 00:01:30"))).microseconds // 10**6
    90
    """
    text, unit = _amount(node), node.args.get("unit")
    if unit is not None:
        text = f"{text} {unit.name}"
    totals = [0, 0, 0]
    position = 0
    while position < len(text):
        if (clock := _CLOCK.match(text, position)) is not None:
            position = clock.end()
            totals[2] += _of_clock(clock)
            continue
        match = _PART.match(text, position)
        if match is None:
            raise error_at(node, f'invalid interval "{text}"', hint="for example INTERVAL '1 day 2 hours'")
        position = match.end()
        added = _parts(node, Decimal(match[1]), match[2])
        totals = [total + more for total, more in zip(totals, added, strict=True)]
    months, days, microseconds = totals
    if abs(months) + abs(days) // 30 + abs(microseconds) // (30 * _MICROSECONDS["HOUR"] * 24) > _MAX_MONTHS:
        raise error_at(node, f'interval "{text}" is longer than 9999 years')
    return Interval(*totals)


def _of_clock(match: re.Match[str]) -> int:
    """The microseconds of hours, minutes and seconds such as `-1:30` or `00:01:30.5`."""
    sign, hours, minutes, seconds = match.groups()
    total = int(hours) * 3_600_000_000 + int(minutes) * 60_000_000 + int(Decimal(seconds or 0) * 1_000_000)
    return -total if sign == "-" else total


def unit_name(word: str) -> str | None:
    """The unit that a word means, in capitals and singular; None if it is not a unit.

    >>> unit_name("hours"), unit_name("ms"), unit_name("parsec")
    ('HOUR', 'MILLISECOND', None)
    """
    upper = word.upper()
    for candidate in (_SHORT.get(upper, upper), _SHORT.get(upper.removesuffix("S"), upper.removesuffix("S"))):
        if candidate in UNITS:
            return candidate
    return None


def _amount(node: exp.Interval) -> str:
    value = node.this
    negative = isinstance(value, exp.Neg)
    value = value.this if negative else value
    if not isinstance(value, exp.Literal):
        raise error_at(node, "an interval must be a literal", hint="for example INTERVAL '5' MINUTE")
    return ("-" if negative else "") + str(value.this)


def _parts(node: exp.Interval, amount: Decimal, word: str) -> tuple[int, int, int]:
    unit = unit_name(word)
    if unit is None:
        raise error_at(node, f'unknown unit "{word}"', hint=f"have: {', '.join(UNITS)}")
    if unit in _MICROSECONDS:
        return 0, 0, int(amount * _MICROSECONDS[unit])
    if amount != int(amount):
        raise error_at(node, f'"{amount} {word}" is not a whole number of {unit.lower()}s')
    return int(amount) * _MONTHS.get(unit, 0), int(amount) * _DAYS.get(unit, 0), 0
