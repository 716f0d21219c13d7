"""Finds which values a query wants of the columns of an object, so that only the rows with these keys need to be read.

The law: the query over the rows with these values has the same answer as over all rows. WHERE still runs over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from dsms.tables.one_time_query import OneTimeQuery

#: The values that columns may have, by the column's name in lower case.
EqualValues = Mapping[str, Sequence[int | str]]


def equal_values(asked: OneTimeQuery) -> dict[str, EqualValues]:
    """The values that the query wants of columns of the objects that it reads, by the name of the object. Only of those
    that it reads once, in a SELECT without joins, whose WHERE says `column = literal` or `column IN (literals)`.

    >>> import sqlglot
    >>> text = "SELECT * FROM \\"relation 0\\" AS v WHERE v.k IN (1, 2) AND name = 'a' AND x > 1"
    >>> equal_values(OneTimeQuery(text, {"relation 0": "v"}, query=sqlglot.parse_one(text)))
    {'v': {'k': (1, 2), 'name': ('a',)}}
    """
    if asked.query is None:
        return {}
    tables: dict[str, list[exp.Table]] = {alias: [] for alias in asked.objects}
    for table in asked.query.find_all(exp.Table):
        tables.get(table.name, []).append(table)
    read_once = {asked.objects[alias]: found[0] for alias, found in tables.items() if len(found) == 1}
    return {name: values for name, table in read_once.items() if (values := _values(table))}


def _values(table: exp.Table) -> EqualValues:
    select = table.parent.parent if isinstance(table.parent, exp.From) else None
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    alias = table.args.get("alias")
    special = {"joins", "laterals", "pivots", "sample"}
    if select is None or where is None or (alias and alias.args.get("columns")) or _has(select, table, special):
        return {}
    renamed = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    found: dict[str, Sequence[int | str]] = {}
    for condition in conjuncts(where.this):
        column, values = _equality(condition)
        if column is not None and values and column.table.lower() in ("", table.alias_or_name.lower()):
            name = column.name.lower()
            if name not in renamed:
                found.setdefault(name, values)
    return found


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


def _equality(condition: exp.Expr) -> tuple[exp.Column | None, tuple[int | str, ...]]:
    """The column and the values of an equality or IN; None if the condition is neither."""
    sides: tuple[exp.Expr, list[exp.Expr]]
    if isinstance(condition, exp.EQ):
        left, right = condition.left.unnest(), condition.right.unnest()
        sides = (left, [right]) if isinstance(left, exp.Column) else (right, [left])
    elif isinstance(condition, exp.In) and condition.expressions and not condition.args.get("query"):
        sides = condition.this.unnest(), condition.expressions
    else:
        return None, ()
    values = [_literal(each.unnest()) for each in sides[1]]
    if not isinstance(sides[0], exp.Column) or sides[0].args.get("db"):
        return None, ()
    return sides[0], tuple(value for value in values if value is not None) if None not in values else ()


def _literal(value: exp.Expr) -> int | str | None:
    """The value of an integer or a text; None for everything else."""
    if isinstance(value, exp.Neg):
        number = _literal(value.this)
        return -number if isinstance(number, int) else None
    if not isinstance(value, exp.Literal):
        return None
    if value.is_string:
        return str(value.this)
    return int(value.this) if value.this.isdecimal() and value.this.isascii() else None
