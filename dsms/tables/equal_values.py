"""Finds which values a query wants of the columns of an object, so that only the rows with these keys need to be read.

The law: the query over the rows with these values has the same answer as over all rows. WHERE still runs over them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from dsms.tables.one_time_query import OneTimeQuery

#: The bits of integers by the names of their types; a literal that is a whole number, and a text that is one.
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHOLE, _DIGITS = re.compile(r"([0-9]+)(?:\.0*)?"), re.compile(r"-?[0-9]{1,18}")
#: The values that columns may have, by the column's name in lower case.
EqualValues = Mapping[str, Sequence[int | str]]


def equal_values(asked: OneTimeQuery) -> dict[str, EqualValues]:
    """The values that the query wants in columns of the objects that it reads, by the name of the object. Only for
    objects that it reads once, in a SELECT without joins, whose WHERE says `column = literal` or `column IN
    (literals)`; a cast to an integer or a text may be around a literal, and one to BIGINT around a column, whose values
    it does not change.

    >>> import sqlglot
    >>> text = "SELECT * FROM \\"relation 0\\" AS v WHERE v.k IN (1, 2) AND name = 'a' AND x > 1"
    >>> equal_values(OneTimeQuery(text, {"relation 0": "v"}, query=sqlglot.parse_one(text)))
    {'v': {'k': (1, 2), 'name': ('a',)}}
    """
    found: dict[str, dict[str, Sequence[int | str]]] = {}
    for name, column, condition in conditions(asked):
        if values := _equal(condition):
            found.setdefault(name, {}).setdefault(column, values)
    return dict(found)


def conditions(asked: OneTimeQuery) -> Iterator[tuple[str, str, exp.Expr]]:
    """The conditions that AND connects in the WHERE of a SELECT without joins, for each object that the query reads
    once: the name of the object, the name in lower case of a column that the condition compares, and the condition."""
    tables: dict[str, list[exp.Table]] = {alias: [] for alias in asked.objects}
    for table in () if asked.query is None else asked.query.find_all(exp.Table):
        tables.get(table.name, []).append(table)
    for alias, found in tables.items():
        if len(found) == 1:
            yield from ((asked.objects[alias], *each) for each in _conditions(found[0]))


def _conditions(table: exp.Table) -> Iterator[tuple[str, exp.Expr]]:
    select = table.parent.parent if isinstance(table.parent, exp.From) else None
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    alias = table.args.get("alias")
    special = {"joins", "laterals", "pivots", "sample"}
    if select is None or where is None or (alias and alias.args.get("columns")) or _has(select, table, special):
        return
    renamed = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    for condition in conjuncts(where.this):
        column = _compared(condition)
        own = column is not None and column.table.lower() in ("", table.alias_or_name.lower())
        if column is not None and own and column.name.lower() not in renamed:
            yield column.name.lower(), condition


def _has(select: exp.Expr, table: exp.Expr, special: set[str]) -> bool:
    return any(select.args.get(name) or table.args.get(name) for name in special)


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND connects."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


def column_of(node: exp.Expr) -> exp.Column | None:
    """The column, also inside a cast to BIGINT."""
    inner = node.unnest()
    if type(inner) is exp.Cast and inner.to.is_type("bigint"):
        inner = inner.this.unnest()
    return inner if isinstance(inner, exp.Column) and not inner.args.get("db") else None


def _compared(condition: exp.Expr) -> exp.Column | None:
    """The column that a comparison, IN or BETWEEN is about; None for other conditions."""
    match condition:
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            left = column_of(condition.left)
            return column_of(condition.right) if left is None else left
        case exp.In() | exp.Between():
            return column_of(condition.this)
    return None


def _equal(condition: exp.Expr) -> tuple[int | str, ...]:
    """The values of an equality or IN; none if the condition is neither, or compares with other than literals. Inside
    a cast, the column is compared with numbers."""
    if isinstance(condition, exp.EQ):
        first = column_of(condition.left) is not None
        side, listed = (condition.left, [condition.right]) if first else (condition.right, [condition.left])
    else:
        listed = [] if not isinstance(condition, exp.In) or condition.args.get("query") else condition.expressions
        side = condition.this
    values = [literal_of(each) for each in listed]
    if isinstance(side.unnest(), exp.Cast):
        values = [None if value is None else whole_number(value) for value in values]
    return tuple(value for value in values if value is not None) if None not in values else ()


def literal_of(node: exp.Expr) -> int | str | None:
    """The value of an integer or a text, also after casts; None for everything else."""
    match value := node.unnest():
        case exp.Neg():
            number = literal_of(value.this)
            return -number if isinstance(number, int) else None
        case exp.Literal() if value.is_string:
            return str(value.this)
        case exp.Literal():
            whole = _WHOLE.fullmatch(value.this)
            return int(whole[1]) if whole is not None else None
        case exp.Cast() if type(value) is exp.Cast and (inner := literal_of(value.this)) is not None:
            return _cast(inner, value.to)
        case _:
            return None


def _cast(value: int | str, kind: exp.DataType) -> int | str | None:
    """The value after a cast to a type; None if the cast fails, or if it takes more than reading digits."""
    if kind.is_type("text", "varchar"):
        return None if kind.expressions else str(value)
    bits = next((bits for name, bits in INTEGERS.items() if kind.is_type(name)), 0)
    number = whole_number(value)
    return number if bits and number is not None and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def whole_number(value: int | str) -> int | None:
    """The integer that a value is, or that a text of digits denotes; None for any other text.

    >>> whole_number(7), whole_number("-7"), whole_number("7x")
    (7, -7, None)
    """
    return value if isinstance(value, int) else int(value) if _DIGITS.fullmatch(value) else None
