"""Parses WITH PREFERENCE, the last clause of a one-time SELECT."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dsms.model.statements import Direction, Estimate, Preference
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.interval import parse_interval

_DIRECTIONS: Final[dict[str, Direction]] = {"ASC": "asc", "DESC": "desc", "WEIGHTED": "weighted"}
_CLAUSES = ("FADE", "WINDOW", "BUDGET")


def split_preference(cursor: Cursor) -> tuple[Cursor, Preference | None]:
    """Splits off the last clause if it is WITH PREFERENCE. Returns a cursor over the rest, and the clause or None."""
    tokens, depth = cursor.tokens, 0
    for at, token in enumerate(tokens):
        depth += (unquoted_text(token) == "(") - (unquoted_text(token) == ")")
        if (
            depth == 0
            and at > cursor.at
            and [unquoted_text(each).upper() for each in tokens[at : at + 2]] == ["WITH", "PREFERENCE"]
        ):
            clause = Cursor(cursor.script, tokens[at:], cursor.limits)
            head = Cursor(cursor.script, tokens[:at], cursor.limits)
            head.at = cursor.at
            return head, _preference(clause)
    return cursor, None


def _preference(cursor: Cursor) -> Preference:
    cursor.expect("WITH")
    cursor.expect("PREFERENCE")
    word = next((word for word in _DIRECTIONS if cursor.accept(word)), "DESC")
    estimates = [_estimate(cursor)]
    while cursor.accept(","):
        estimates.append(_estimate(cursor))
    fade, window, budget_s = 1.0, None, None
    seen: set[str] = set()
    while cursor.more():
        place = place_of(cursor.peek())
        clause = cursor.one_of(_CLAUSES, "clause")
        if clause in seen:
            raise place.error(f"{clause} is given twice")
        seen.add(clause)
        if clause == "FADE":
            cursor.expect("FACTOR")
            fade = _fade(cursor)
        elif clause == "WINDOW":
            window = _instants(cursor)
        else:
            budget_s = _milliseconds(cursor) / 1_000
    return Preference(_DIRECTIONS[word], tuple(estimates), fade, window, budget_s)


def _estimate(cursor: Cursor) -> Estimate:
    """`[SUMMARY.ESTIMATE.]COUNT(column) [* column]`; the paper writes the optional words before COUNT."""
    place = place_of(cursor.peek())
    if cursor.accept("SUMMARY"):
        for word in (".", "ESTIMATE", "."):
            cursor.expect(word)
    cursor.expect("COUNT")
    cursor.expect("(")
    column = _column(cursor)
    cursor.expect(")")
    by_amount = cursor.accept("*")
    if by_amount:
        factor = place_of(cursor.peek())
        if tuple(map(str.lower, _column(cursor))) != tuple(map(str.lower, column)):
            raise factor.error("COUNT(column) can only be multiplied by the same column")
    return Estimate(column[0] or None, column[1], by_amount, place)


def _column(cursor: Cursor) -> tuple[str, str]:
    quoted = not unquoted_text(cursor.peek())
    name = cursor.name("column name")
    if cursor.accept("."):
        return name.text, cursor.name("column name").text
    if quoted:
        return "", name.text
    alias, _, column = name.text.rpartition(".")
    return alias, column


def _fade(cursor: Cursor) -> float:
    token = cursor.next()
    try:
        fade = float(token.text)
    except ValueError:
        fade = 0.0
    if not 0.0 < fade <= 1.0:
        raise place_of(token).error(f'FADE FACTOR must be a number above 0 and up to 1, not "{token.text}"')
    return fade


def _instants(cursor: Cursor) -> int:
    """A number of instants, or an interval in milliseconds."""
    following = cursor.tokens[cursor.at + 1 : cursor.at + 2]
    if cursor.peek().text.isdecimal() and (not following or following[0].text.upper() in _CLAUSES):
        return int(cursor.next().text)
    return _milliseconds(cursor)


def _milliseconds(cursor: Cursor) -> int:
    """The milliseconds of an interval: `INTERVAL '5 minutes'`, `INTERVAL '5' MINUTE` or `5 MINUTES`."""
    token = cursor.peek()
    cursor.accept("INTERVAL")
    text = cursor.next().text
    if cursor.more() and cursor.peek().text.upper() not in _CLAUSES:
        text += f" {cursor.next().text}"
    interval = parse_interval(exp.Interval(this=exp.Literal.string(text)))
    if interval.months or interval.days < 0 or interval.microseconds < 0:
        raise place_of(token).error(f'"{text}" is not a length of time')
    return interval.days * 86_400_000 + interval.microseconds // 1_000
