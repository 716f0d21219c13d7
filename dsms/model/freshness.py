"""How far an answer is behind the present."""

from __future__ import annotations

#: The beginnings of the years 2000 and 10000, in milliseconds since 1970.
_YEAR_2000, _YEAR_10000 = 946_684_800_000, 253_402_300_800_000


def behind_ms(instant: int | None, now_ms: int) -> int | None:
    """How many milliseconds an instant is before now; 0 for a later one. None if the instant is not a time in
    milliseconds since 1970, as all instants of TIMESTAMP columns, records and tables are.

    >>> behind_ms(1_800_000_000_000, 1_800_000_000_400), behind_ms(7, 1_800_000_000_000)
    (400, None)
    """
    if instant is None or not _YEAR_2000 <= instant < _YEAR_10000:
        return None
    return max(0, now_ms - instant)


def answered_at(instant: int | None, behind: int | None) -> str:
    """The end of the message of an answer.

    >>> answered_at(7, None), answered_at(1_800_000_000_000, 400), answered_at(None, None)
    (' at instant 7', ' at instant 1800000000000, 0.4 s behind', '')
    """
    when = "" if instant is None else f" at instant {instant}"
    return when if behind is None else f"{when}, {behind / 1_000:.1f} s behind"
