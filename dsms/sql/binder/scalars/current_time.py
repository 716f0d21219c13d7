"""`now()`, `current_timestamp`, `localtimestamp` and `current_date` in a statement that runs once: its instant."""

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from dsms.model.position import not_supported
from dsms.sql.parser.nodes import WRITTEN_NAME

#: The functions, and the names of their columns in a select list.
CURRENT: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
    exp.CurrentDate: "current_date",
}
#: An instant for checks in which only the types of expressions matter.
ANY_INSTANT = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def reads_current_time(tree: exp.Expr) -> bool:
    """Whether an expression or query depends on when it is evaluated."""
    return tree.find(*CURRENT) is not None


def at_instant(tree: exp.Expr, now: dt.datetime) -> exp.Expr:
    """The expression or query with `now`, in UTC, in place of each such function. Raises SqlError for a function with a
    precision.

    >>> import sqlglot
    >>> at_instant(sqlglot.parse_one("SELECT current_date FROM t"), dt.datetime(2026, 5, 1, 12)).sql()
    "SELECT CAST('2026-05-01' AS DATE) AS current_date FROM t"
    """
    if not reads_current_time(tree):
        return tree
    whole = exp.Paren(this=tree.copy())
    _name_items(whole)
    for node in list(whole.find_all(*CURRENT)):
        if node.this is not None:
            raise not_supported(node, f"a precision of {CURRENT[type(node)]}", "date_trunc('second', now())")
        value = _constant(node, now)
        node.replace(value)
    replaced: exp.Expr = whole.this.pop()
    return replaced


def _name_items(whole: exp.Expr) -> None:
    """Names the columns of select lists that contain such a function and have no name: by their text."""
    for select in whole.find_all(exp.Select):
        for item in list(select.expressions):
            if not isinstance(item, exp.Alias) and reads_current_time(item):
                text = item.sql(dialect="duckdb", comments=False, normalize_functions="lower")
                name = item.meta.get(WRITTEN_NAME, CURRENT.get(type(item), text))
                item.replace(exp.alias_(item.copy(), name, quoted=name == text))


def _constant(node: exp.Expr, now: dt.datetime) -> exp.Expr:
    is_date = isinstance(node, exp.CurrentDate)
    value = now.date().isoformat() if is_date else now.replace(tzinfo=None).isoformat(" ")
    cast = exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build("date" if is_date else "timestamp"))
    cast.meta.update(node.meta)
    return cast
