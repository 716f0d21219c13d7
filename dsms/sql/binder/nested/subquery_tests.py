"""Reads predicates with a subquery: EXISTS, IN, and comparisons with ANY and ALL."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

#: The comparisons: the name of each, and the name of its negation.
OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("equal", "not_equal"),
    exp.NEQ: ("not_equal", "equal"),
    exp.LT: ("less", "greater_or_equal"),
    exp.LTE: ("less_or_equal", "greater"),
    exp.GT: ("greater", "less_or_equal"),
    exp.GTE: ("greater_or_equal", "less"),
}


@dataclass(frozen=True)
class SubqueryTest:
    """Whether `values operator row` is TRUE for some row of the query; without an operator, whether the query has a
    row."""

    query: exp.Expr
    values: tuple[exp.Expr, ...] = ()
    operator: str | None = None
    negated: bool = False


def subquery_test(node: exp.Expr) -> SubqueryTest | None:
    """The test that a node represents; None for every other node.

    >>> from sqlglot import parse_one
    >>> test = subquery_test(parse_one("x > ALL (SELECT 1)"))
    >>> test.operator, test.negated
    ('less_or_equal', True)
    """
    if isinstance(node, exp.Exists):
        return SubqueryTest(node.this)
    if isinstance(node, exp.In) and node.args.get("query"):
        return SubqueryTest(node.args["query"], _values(node.this), "equal")
    quantified = getattr(node, "expression", None) if type(node) in OPERATORS else None
    if not isinstance(quantified, exp.Any | exp.All) or not isinstance(_query(quantified), exp.Query):
        return None
    operator, opposite = OPERATORS[type(node)]
    if isinstance(quantified, exp.Any):
        return SubqueryTest(_query(quantified), _values(node.this), operator)
    return SubqueryTest(_query(quantified), _values(node.this), opposite, negated=True)


def _query(node: exp.Expr) -> exp.Expr:
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    assert isinstance(inner, exp.Expr)
    return inner


def _values(node: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(node, exp.Paren):
        return _values(node.this)
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)
