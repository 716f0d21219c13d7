"""Instants as people write them: a whole number, or a time in ISO 8601, whose instant is in milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from numbers import Integral

from operators.core.errors import UserError

#: An instant as a program gives it. A time without a zone is in UTC.
Instant = int | str | date | datetime
#: The most characters of a number that may be an instant, and the limit of instants: `-BEGINNING` of
#: `operators.core.delta`, which is not imported because clients would load Polars.
_DIGITS, _END = 20, 2**62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = "give a whole number, or a time in ISO 8601 such as 2026-05-01T12:00:00Z"


def instant_of(text: str, *, up: bool = True) -> int | None:
    """The instant that a text denotes: a number that a record may have as its instant, or a date or time, rounded up
    or down to milliseconds. None for any other text.

    >>> instant_of("-7"), instant_of("1970-01-02 00:00:00"), instant_of("1970-01-01T01:00:01+01:00"), instant_of("soon")
    (-7, 86400000, 1000, None)
    """
    if text.removeprefix("-").isdecimal():
        at = int(text) if len(text) <= _DIGITS else _END
        return at if -_END < at < _END else None
    try:
        return milliseconds(datetime.fromisoformat(text), up=up)
    except ValueError:
        return None


def given_instant(value: Instant) -> int:
    """The instant of a value. Raises UserError if the value is no instant.

    >>> given_instant(7), given_instant("1970-01-01T00:00:01Z"), given_instant(date(1970, 1, 2))
    (7, 1000, 86400000)
    """
    if isinstance(value, date):
        return milliseconds(value)
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else _END
    at = instant_of(value) if isinstance(value, str) else whole
    if at is None or not -_END < at < _END:
        raise UserError(f"{value!r} is not an instant", hint=_FORMS)
    return at


def time_text(at: int) -> str:
    """A time in milliseconds since 1970, in ISO 8601.

    >>> time_text(1_796_040_000_500)
    '2026-11-30T12:00:00.500Z'
    """
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(moment: date, *, up: bool = True) -> int:
    """Milliseconds since 1970, rounded up to the first instant that is not before the moment, or down to the last one
    that is not after it. A date is its midnight; without a zone, the moment is in UTC."""
    exact = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
    passed, unit = (exact if exact.tzinfo else exact.replace(tzinfo=UTC)) - _EPOCH, timedelta(milliseconds=1)
    return -(-passed // unit) if up else passed // unit
