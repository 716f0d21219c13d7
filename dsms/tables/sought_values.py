"""Finds which values a query seeks in columns, so that an index can narrow the rows that have to be read.

The law: the query over the rows that have these values has the same answer as over all rows. WHERE still runs over
them, so a range may have its ends although WHERE excludes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from dsms.tables.equal_values import conditions, literal_of
from dsms.tables.one_time_query import OneTimeQuery

#: A number, or a text, which may denote a date or a time.
Constant = int | str | Decimal
_NUMBER = re.compile(r"[0-9]+\.[0-9]*|\.[0-9]+")
_DAY, _TIME = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
#: Comparisons of a column with a constant: whether the constant is the least or the greatest value that is sought.
_BOUNDS = {exp.GT: "least", exp.GTE: "least", exp.LT: "greatest", exp.LTE: "greatest"}
_OPPOSITE = {"least": "greatest", "greatest": "least"}


@dataclass(frozen=True)
class Sought:
    """The values of a column: one of `values`, or else at least `least` and at most `greatest`, as far as these are
    given."""

    values: tuple[Constant, ...] = ()
    least: Constant | None = None
    greatest: Constant | None = None


#: What is sought in columns, by the column's name in lower case.
SoughtValues = Mapping[str, Sought]


def sought_values(asked: OneTimeQuery) -> dict[str, SoughtValues]:
    """What the query seeks in columns of the objects that it reads, by the name of the object. Only of those that it
    reads once, in a SELECT without joins whose WHERE compares columns with constants.

    >>> import sqlglot
    >>> text = "SELECT * FROM \\"relation 0\\" AS v WHERE v.k IN (1, 2) AND x > 1.5 AND 9 >= x"
    >>> found = sought_values(OneTimeQuery(text, {"relation 0": "v"}, query=sqlglot.parse_one(text)))["v"]
    >>> found["k"], found["x"]
    (Sought(values=(1, 2), least=None, greatest=None), Sought(values=(), least=Decimal('1.5'), greatest=9))
    """
    found: dict[str, dict[str, Sought]] = {}
    for name, column, condition in conditions(asked):
        for sought in _sought(condition, column):
            columns = found.setdefault(name, {})
            columns[column] = _both(columns.get(column, Sought()), sought)
    return {name: columns for name, columns in found.items() if columns}


def _both(one: Sought, other: Sought) -> Sought:
    """What is sought by two conditions that AND connects, or more."""
    least = other.least if one.least is None else one.least
    return Sought(one.values or other.values, least, other.greatest if one.greatest is None else one.greatest)


def _sought(condition: exp.Expr, column: str) -> Iterator[Sought]:
    """What a condition seeks in a column. A condition with a cast around the column seeks nothing: the cast may make
    values equal that differ in the index."""
    match condition:
        case exp.EQ() if _is(condition.left, column):
            yield from _values([condition.right])
        case exp.EQ() if _is(condition.right, column):
            yield from _values([condition.left])
        case exp.In() if _is(condition.this, column) and condition.expressions and not condition.args.get("query"):
            yield from _values(condition.expressions)
        case exp.Between() if _is(condition.this, column) and not condition.args.get("symmetric"):
            low, high = constant(condition.args["low"]), constant(condition.args["high"])
            if low is not None and high is not None:
                yield Sought(least=low, greatest=high)
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            yield from _bound(condition, column)


def _values(listed: list[exp.Expr]) -> Iterator[Sought]:
    values = [constant(each) for each in listed]
    if None not in values:
        yield Sought(tuple(value for value in values if value is not None))


def _bound(condition: exp.Binary, column: str) -> Iterator[Sought]:
    first = _is(condition.left, column)
    if not first and not _is(condition.right, column):
        return
    end = _BOUNDS[type(condition)] if first else _OPPOSITE[_BOUNDS[type(condition)]]
    value = constant(condition.right if first else condition.left)
    if value is not None:
        yield Sought(least=value) if end == "least" else Sought(greatest=value)


def _is(node: exp.Expr, column: str) -> bool:
    found = node.unnest()
    return isinstance(found, exp.Column) and found.name.lower() == column


def constant(node: exp.Expr) -> Constant | None:
    """The value of a constant; None for everything else. Dates and times are texts.

    >>> import sqlglot
    >>> [constant(sqlglot.parse_one(text)) for text in ("-1.5", "'a'", "DATE '2026-05-01'", "a")]
    [Decimal('-1.5'), 'a', '2026-05-01', None]
    """
    value = node.unnest()
    if isinstance(value, exp.Neg):
        number = constant(value.this)
        return -number if isinstance(number, int | Decimal) else None
    if type(value) is exp.Cast and value.to.is_type("date", "timestamp"):
        text, form = constant(value.this), _DAY if value.to.is_type("date") else _TIME
        return text if isinstance(text, str) and form.fullmatch(text) else None
    if isinstance(value, exp.Literal) and not value.is_string and _NUMBER.fullmatch(value.this):
        return Decimal(value.this)
    return literal_of(value)
