"""Converts ISO 8601 text to days and microseconds since 1970, and back, for all years that Arrow can store."""

import re
from functools import lru_cache

from operators.core.calendar_range import DAY_US

_DATE = r"([+-]?\d{4,7})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
_ZONE = r"(?:(Z|z)|([+-])(\d\d):?(\d\d)?)?"
_ISO_DATE = re.compile(_DATE, re.ASCII)
_ISO_TIMESTAMP = re.compile(f"{_DATE}[Tt ]{_TIME}{_ZONE}", re.ASCII)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days(text: str) -> int | None:
    """Days since 1970-01-01 of an ISO date; None if the text is not an ISO date.

    >>> days("1970-01-02"), days("1969-12-31"), days("2023-02-29"), days("+12000-01-01")
    (1, -1, None, 3663382)
    """
    match = _ISO_DATE.fullmatch(text)
    return _civil(*match.groups()) if match else None


def microseconds(text: str) -> int | None:
    """Microseconds since 1970-01-01 00:00 UTC of an ISO timestamp; None if the text is not one.

    A timestamp without an offset is in UTC. Digits below a microsecond are cut off.

    >>> microseconds("1970-01-01T00:00:01.5Z"), microseconds("1970-01-01 01:00+01:00"), microseconds("yesterday")
    (1500000, 0, None)
    """
    match = _ISO_TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, off_hour, off_minute = match.groups()
    date = _civil(year, month, day)
    clock = _seconds(hour, minute, second or "0")
    offset = _seconds(off_hour or "0", off_minute or "0", "0")
    if date is None or clock is None or offset is None:
        return None
    seconds = date * 86_400 + clock + (offset if sign == "-" else -offset)
    return seconds * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))


def _seconds(hour: str, minute: str, second: str) -> int | None:
    h, m, s = int(hour), int(minute), int(second)
    return h * 3600 + m * 60 + s if h < 24 and m < 60 and s < 60 else None


@lru_cache(maxsize=4096)
def _civil(year: str, month: str, day: str) -> int | None:
    """Days since 1970 in the proleptic Gregorian calendar, counted in eras of 400 years that start in March."""
    y, m, d = int(year), int(month), int(day)
    leap = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    if not 1 <= m <= 12 or not 1 <= d <= _MONTH_DAYS[m - 1] or (m == 2 and d == 29 and not leap):
        return None
    y -= m <= 2
    era, year_of_era = divmod(y, 400)
    day_of_year = (153 * ((m + 9) % 12) + 2) // 5 + d - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_text(day: int) -> str:
    """The ISO date of a number of days since 1970; years below 0 or above 9999 have a sign.

    >>> date_text(0), date_text(3663382), date_text(-719529)
    ('1970-01-01', '+12000-01-01', '-0001-12-31')
    """
    shifted = day + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    year = year_of_era + era * 400 + (month >= 10)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{(month + 2) % 12 + 1:02}-{day_of_year - (153 * month + 2) // 5 + 1:02}"


def timestamp_text(instant: int) -> str:
    """The ISO 8601 text in UTC of microseconds since 1970; the fraction has 0, 3 or 6 digits.

    >>> timestamp_text(0), timestamp_text(1500000), timestamp_text(-1)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500Z', '1969-12-31T23:59:59.999999Z')
    """
    day, clock = divmod(instant, DAY_US)
    second, fraction = divmod(clock, 1_000_000)
    part = "" if not fraction else f".{fraction // 1000:03}" if fraction % 1000 == 0 else f".{fraction:06}"
    return f"{date_text(day)}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{part}Z"
