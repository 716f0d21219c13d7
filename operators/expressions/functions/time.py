"""Functions of dates and timestamps, which are naive, in UTC, to the microsecond."""

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.arrow_types import INTERVAL, TIMESTAMP, integer, temporal
from operators.expressions.function import (
    Arguments,
    Function,
    Signature,
    lit_text,
    literal_value,
    may_fail,
    may_fail_call,
    never_fails,
    never_fails_call,
    quoted,
)
from operators.expressions.functions.entry import DOUBLE, LONG, TEXT, constant, with_constants
from operators.expressions.functions.rules import exactly
from operators.expressions.functions.shift_time import date_in_range, in_range, intervals_after
from operators.expressions.quotient import quotient
from operators.expressions.tree import Call, Expression

Part = Callable[[pl.Expr], pl.Expr]


def _long(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.Int64)


_PARTS: dict[str, Part] = {
    "year": lambda t: t.dt.year(),
    "isoyear": lambda t: t.dt.iso_year(),
    "quarter": lambda t: t.dt.quarter(),
    "month": lambda t: t.dt.month(),
    "week": lambda t: t.dt.week(),
    "day": lambda t: t.dt.day(),
    "dow": lambda t: t.dt.weekday() % 7,
    "isodow": lambda t: t.dt.weekday(),
    "doy": lambda t: t.dt.ordinal_day(),
    "hour": lambda t: t.dt.hour(),
    "minute": lambda t: t.dt.minute(),
    "second": lambda t: t.dt.second(),
    "millisecond": lambda t: _long(t.dt.second()) * 1_000 + _long(t.dt.microsecond()) // 1_000,
    "microsecond": lambda t: _long(t.dt.second()) * 1_000_000 + _long(t.dt.microsecond()),
    "epoch": lambda t: quotient(_long(t), 1_000_000),
}
_STEPS = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}
_LENGTHS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86_400 * 10**6,
    "week": 7 * 86_400 * 10**6,
}
_ALIASES = {"dayofweek": "dow", "dayofyear": "doy", "weekday": "dow", "us": "microsecond", "ms": "millisecond"}


def _unit(expression: Expression, choices: dict[str, object]) -> str:
    word = str(literal_value(expression)).lower()
    word = _ALIASES.get(word, word)
    unit = word if word in choices else word.removesuffix("s")
    if unit not in choices:
        raise UserError(f'"{word}" is not a part or unit of a time', hint=f"have: {', '.join(choices)}")
    return unit


def _moment(expression: Expression) -> bool:
    return temporal(expression.type) or bool(pa.types.is_null(expression.type))


def _extract_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or not constant(arguments[0]) or not _moment(arguments[1]):
        return None
    unit = _unit(arguments[0], dict(_PARTS))
    return Signature((TEXT, TIMESTAMP), DOUBLE if unit == "epoch" else LONG)


def _extract(call: Call, _: pl.Expr, moment: pl.Expr) -> pl.Expr:
    unit = _unit(call.arguments[0], dict(_PARTS))
    value = _PARTS[unit](moment)
    return value if unit == "epoch" else _long(value)


def _trunc_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or not constant(arguments[0]) or not _moment(arguments[1]):
        return None
    _unit(arguments[0], dict(_STEPS))
    return Signature((TEXT, TIMESTAMP), TIMESTAMP)


def _trunc(call: Call, _: pl.Expr, moment: pl.Expr) -> pl.Expr:
    return moment.dt.truncate(_STEPS[_unit(call.arguments[0], dict(_STEPS))])


def _diff_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 3 or not constant(arguments[0]) or not all(map(_moment, arguments[1:])):
        return None
    _unit(arguments[0], dict(_STEPS))
    return Signature((TEXT, TIMESTAMP, TIMESTAMP), LONG)


def _diff(call: Call, _: pl.Expr, start: pl.Expr, end: pl.Expr) -> pl.Expr:
    unit = _unit(call.arguments[0], dict(_STEPS))
    return _number(end, unit) - _number(start, unit)


def _number(moment: pl.Expr, unit: str) -> pl.Expr:
    """Returns the number of the calendar unit that contains the moment."""
    years = _long(moment.dt.year())
    if unit == "year":
        return years
    if unit in ("month", "quarter"):
        months = years * 12 + _long(moment.dt.month()) - 1
        return months if unit == "month" else months // 3
    # 1970-01-01 is a Thursday, weeks start on Monday
    shift = 3 * _LENGTHS["day"] if unit == "week" else 0
    return (_long(moment) + shift) // _LENGTHS[unit]


def _format(call: Call, position: int) -> str:
    text = str(literal_value(call.arguments[position]))
    return text.replace("%f", "%6f")


def _formatted(call: Call, moment: pl.Expr, _: pl.Expr) -> pl.Expr:
    return moment.dt.strftime(_format(call, 1))


def _parsed(call: Call, text: pl.Expr, _: pl.Expr) -> pl.Expr:
    format_ = _format(call, 1)
    clock = any(code in format_ for code in ("%H", "%I", "%M", "%S", "%T", "%s", "%R"))
    if not clock:
        return date_in_range(text.str.to_date(format_, strict=False)).cast(pl.Datetime("us"))
    return in_range(text.str.to_datetime(format_, time_unit="us", strict=False))


def _date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    parts = [part.cast(pl.String).str.zfill(width) for part, width in ((year, 4), (month, 2), (day, 2))]
    likely = year.is_between(1, 9999) & month.is_between(1, 12) & day.is_between(1, 31)
    return pl.when(likely).then(pl.concat_str(parts, separator="-")).str.to_date("%Y-%m-%d", strict=False)


def _timestamp(
    year: pl.Expr, month: pl.Expr, day: pl.Expr, hours: pl.Expr, minutes: pl.Expr, seconds: pl.Expr
) -> pl.Expr:
    clock = hours.is_between(0, 23) & minutes.is_between(0, 59) & (seconds >= 0) & (seconds < 60)
    whole = (hours.clip(0, 23) * 3600 + minutes.clip(0, 59) * 60) * 1_000_000
    micros = whole + pl.when(clock).then((seconds * 1_000_000).round(0)).cast(pl.Int64, strict=False)
    return in_range(_date(year, month, day).cast(pl.Datetime("us")) + micros.cast(pl.Duration("us")))


def _unparsed(call: Call, text: pl.Expr, _: pl.Expr) -> pl.Expr:
    return pl.concat_str(
        lit_text('"'),
        text.str.slice(0, 80),
        lit_text(f'" does not match the format in {quoted(call)}'),
    )


def _from_seconds(seconds: pl.Expr) -> pl.Expr:
    micros = (seconds * 1_000_000).round(0)
    return in_range(micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us")))


def _epoch_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 1:
        return None
    if integer(arguments[0].type):
        return Signature((LONG,), TIMESTAMP)
    return Signature((TIMESTAMP,), LONG) if _moment(arguments[0]) else None


def _epoch(per_unit: int) -> Callable[..., pl.Expr]:
    def build(call: Call, value: pl.Expr) -> pl.Expr:
        if call.type == LONG:
            return _long(value) // per_unit
        return in_range((value.cast(pl.Int128) * per_unit).cast(pl.Int64, strict=False).cast(pl.Datetime("us")))

    return build


def _out_of_range(call: Call, *_: pl.Expr) -> pl.Expr:
    return lit_text(f"timestamp out of range in {quoted(call)}")


def _intervals_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 3 or not temporal(arguments[0].type) or not constant(arguments[1]):
        return None
    fits = arguments[1].type == INTERVAL and integer(arguments[2].type)
    return Signature((TIMESTAMP, INTERVAL, LONG), TIMESTAMP) if fits else None


def _zone_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 3 or not temporal(arguments[0].type) or not all(map(constant, arguments[1:])):
        return None
    for zone in map(literal_value, arguments[1:]):
        try:
            pl.Series([], dtype=pl.Datetime("us")).dt.replace_time_zone(str(zone))
        except pl.exceptions.PolarsError as error:
            raise UserError(
                f'time zone "{zone}" not found', hint="use a name of the IANA time zone database, such as Europe/Berlin"
            ) from error
    return Signature((TIMESTAMP, TEXT, TEXT), TIMESTAMP)


def _in_zone(call: Call, moment: pl.Expr, *_: pl.Expr) -> pl.Expr:
    """Converts between time zones. A local time that occurs twice, because clocks go back, means the later moment. A
    local time that clocks skip when they go forward is read with the offset before the change."""
    source, target = (str(literal_value(zone)) for zone in call.arguments[1:])

    def instant(hours: int) -> pl.Expr:
        before = pl.duration(hours=hours)
        known = (moment - before).dt.replace_time_zone(source, ambiguous="latest", non_existent="null")
        return known.dt.convert_time_zone("UTC") + before

    known = pl.coalesce(instant(0), instant(3), instant(25))
    return in_range(known.dt.convert_time_zone(target).dt.replace_time_zone(None))


TIME: dict[str, Function] = {
    "add_intervals": Function(
        "time",
        "a date or timestamp, a literal interval and a whole number",
        "The timestamp n intervals later; also t + n * INTERVAL '1 hour'.",
        "ADD_INTERVALS(t, INTERVAL '1 hour', 3)",
        _intervals_rule,
        may_fail_call(intervals_after, _out_of_range),
    ),
    "in_zone": Function(
        "time",
        "a timestamp and two literal time zones",
        "The local time in the second zone for a local time in the first; also t AT TIME ZONE a AT TIME ZONE b.",
        "IN_ZONE(t, 'UTC', 'Europe/Berlin')",
        _zone_rule,
        may_fail_call(_in_zone, _out_of_range),
    ),
    "extract": Function(
        "time",
        "a part and a date or timestamp",
        f"The part: {', '.join(_PARTS)}; also YEAR(t), MONTH(t), …",
        "EXTRACT(YEAR FROM t)",
        _extract_rule,
        never_fails_call(_extract),
    ),
    "date_trunc": Function(
        "time",
        "a unit and a date or timestamp",
        f"The start of the unit the time lies in: {', '.join(_STEPS)}.",
        "DATE_TRUNC('hour', t)",
        _trunc_rule,
        never_fails_call(_trunc),
    ),
    "date_diff": Function(
        "time",
        "a unit and two dates or timestamps",
        "The number of unit boundaries between the first and the second; also DATEDIFF.",
        "DATE_DIFF('day', a, b)",
        _diff_rule,
        never_fails_call(_diff),
    ),
    "strftime": Function(
        "time",
        "a date or timestamp and a literal format",
        "The time as text, in a strftime format.",
        "STRFTIME(t, '%Y-%m-%d')",
        with_constants(exactly(TIMESTAMP, TEXT, result=TEXT), 1),
        never_fails_call(_formatted),
    ),
    "make_date": Function(
        "time",
        "a year, a month and a day",
        "The date; a fault if there is no such date.",
        "MAKE_DATE(2024, 2, 29)",
        exactly(LONG, LONG, LONG, result=pa.date32()),
        may_fail(_date, "no such date"),
    ),
    "make_timestamp": Function(
        "time",
        "a year, a month, a day, hours, minutes and seconds",
        "The timestamp; a fault if there is no such time.",
        "MAKE_TIMESTAMP(2024, 2, 29, 12, 30, 1.5)",
        exactly(LONG, LONG, LONG, LONG, LONG, DOUBLE, result=TIMESTAMP),
        may_fail(_timestamp, "no such time"),
    ),
    "strptime": Function(
        "time",
        "text and a literal format",
        "The timestamp parsed from the text; a fault if it does not match the format.",
        "STRPTIME('31.01.2024', '%d.%m.%Y')",
        with_constants(exactly(TEXT, TEXT, result=TIMESTAMP), 1),
        may_fail_call(_parsed, _unparsed),
    ),
    "to_timestamp": Function(
        "time",
        "a number",
        "The timestamp that many seconds after 1970-01-01 00:00:00.",
        "TO_TIMESTAMP(1.5)",
        exactly(DOUBLE, result=TIMESTAMP),
        may_fail(_from_seconds, "timestamp out of range"),
    ),
    "epoch": Function(
        "time",
        "a date or timestamp",
        "The seconds since 1970, with fractions.",
        "EPOCH(t)",
        exactly(TIMESTAMP, result=DOUBLE),
        never_fails(lambda t: quotient(_long(t), 1_000_000)),
    ),
    "epoch_ms": Function(
        "time",
        "a date or timestamp, or a BIGINT",
        "The milliseconds since 1970; for a BIGINT, the timestamp with that value.",
        "EPOCH_MS(t)",
        _epoch_rule,
        may_fail_call(_epoch(1_000), _out_of_range),
    ),
    "epoch_us": Function(
        "time",
        "a date or timestamp, or a BIGINT",
        "The microseconds since 1970; for a BIGINT, the timestamp with that value.",
        "EPOCH_US(t)",
        _epoch_rule,
        may_fail_call(_epoch(1), _out_of_range),
    ),
}
