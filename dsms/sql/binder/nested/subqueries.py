"""Binds subqueries in expressions: their values become columns of a join, predicates become semi-joins.

A test is TRUE if a condition θ is TRUE for some row of a query: `x IN (Q)` and `x = ANY (Q)` have θ = (x = y),
`EXISTS (Q)` has θ = TRUE. `x op ALL (Q)` is `NOT (x negated-op ANY (Q))`. A negated test holds if θ is FALSE for all
rows, that is, if θ IS NOT FALSE holds for no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.empty_aggregates import empty_value_known, if_empty
from dsms.sql.binder.from_clause.joins import Pair, equality, join, semi_join
from dsms.sql.binder.nested.correlation import Inner, bind_inside, with_free_names
from dsms.sql.binder.nested.single_row import at_most_one, exactly_one
from dsms.sql.binder.nested.subquery_tests import SubqueryTest, subquery_test
from dsms.sql.binder.query.select_list_unnest import array_agg_query, query_of_array
from dsms.sql.binder.relation import Context, Relation, bind_query
from dsms.sql.binder.scalars.conditions import (
    Output,
    conjunction,
    conjuncts,
    distinct,
    extended,
    filtered,
    names_of,
    unique_name,
)
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from operators.core.errors import UserError
from operators.expressions import Call, Column, Expression, Literal, call, columns

_TRUE, _FALSE = Literal(True, pa.bool_()), Literal(False, pa.bool_())


def filter_with_subqueries(relation: Relation, nodes: Sequence[exp.Expr], clause: str, context: Context) -> Relation:
    """The rows that satisfy predicates with subqueries."""
    for node in nodes:
        negated, inner = _negation(node)
        if (test := subquery_test(inner)) is not None:
            relation = _tested(relation, replace(test, negated=test.negated != negated), context)
        else:
            relation = with_values(relation, [node], context)
            relation = relation.over(filtered(relation.node, [predicate(node, relation.scope, clause)]))
    return relation


def _negation(node: exp.Expr) -> tuple[bool, exp.Expr]:
    negated = False
    while isinstance(node, exp.Not | exp.Paren):
        negated, node = negated != isinstance(node, exp.Not), node.this
    return negated, node


def _tested(relation: Relation, test: SubqueryTest, context: Context) -> Relation:
    """The rows of a relation that satisfy a test."""
    relation = with_values(relation, test.values, context)
    inner = _inner(relation, test, context)
    theta = _theta(test, inner, relation)
    pair = equality(theta, names_of(relation.node), names_of(inner.relation.node))
    if pair is None:
        condition = call("is_not_false", theta) if test.negated and theta.nullable else theta
        return relation.over(
            semi_join(relation.node, inner.relation.node, [condition], inner.null_safe, anti=test.negated)
        )
    node = semi_join(relation.node, inner.relation.node, [theta], inner.null_safe, anti=test.negated)
    return relation.over(_without_unknown(node, inner, pair) if test.negated else node)


def _without_unknown(node: logical.Node, inner: Inner, pair: Pair) -> logical.Node:
    """Keeps the rows for which no row of the query makes x = y NULL."""
    value, inner_value = pair
    if inner_value.nullable:
        null_rows = filtered(inner.relation.node, [call("is_null", inner_value)])
        node = semi_join(node, _domain_with_rows(null_rows, inner), [], inner.null_safe, anti=True)
    if value.nullable:
        node = semi_join(
            node, _domain_with_rows(inner.relation.node, inner), [call("is_null", value)], inner.null_safe, anti=True
        )
    return node


def _domain_with_rows(rows: logical.Node, inner: Inner) -> logical.Node:
    """The values of the outer columns for which the query has rows."""
    outer: list[Output] = [(column.name, column) for _, column in inner.null_safe]
    return distinct(logical.Project(rows, tuple(outer) or ((unique_name("__t", schema(rows).names), _TRUE),)))


def with_values(relation: Relation, nodes: Sequence[exp.Expr], context: Context) -> Relation:
    """Adds columns with the values of the subqueries in `nodes`, by which the scope of the result resolves them."""
    for node in nodes:
        for query in list(_queries_in(node, relation)):
            relation = _with_value(relation, query, context)
    return relation


def _queries_in(node: exp.Expr, relation: Relation) -> Iterator[exp.Expr]:
    if id(node) in relation.scope.computed:
        return
    if isinstance(node, exp.Query) or subquery_test(node) is not None or query_of_array(node) is not None:
        yield node
        return
    for child in node.iter_expressions():
        yield from _queries_in(child, relation)


def _with_value(relation: Relation, node: exp.Expr, context: Context) -> Relation:
    if (query := query_of_array(node)) is not None:
        relation, value = _scalar(relation, array_agg_query(query), context)
        value = call("coalesce", value, Literal((), value.type))
    else:
        test = subquery_test(node)
        relation, value = _scalar(relation, node, context) if test is None else _truth(relation, test, context)
    known = {**relation.scope.computed, id(node): value}
    return replace(relation, scope=replace(relation.scope, computed=known))


def _scalar(relation: Relation, node: exp.Expr, context: Context) -> tuple[Relation, Expression]:
    caller_fills_empty = empty_value_known(node)
    inner = bind_inside(
        lambda inside: bind_query(node, replace(inside, caller_fills_empty=caller_fills_empty)),
        lambda: relation.node,
        relation.scope,
        context,
    )
    if len(inner.relation.visible) != 1:
        raise error_at(node, f"a scalar subquery must have one column, not {len(inner.relation.visible)}")
    outer_columns = frozenset(inner_column.name for _, inner_column in inner.null_safe)
    if not at_most_one(inner.relation.node, outer_columns):
        raise error_at(
            node,
            "a scalar subquery may return several rows",
            hint="aggregate it, compare its key with = to constants or columns of the enclosing query, or add LIMIT 1",
        )
    always = exactly_one(inner.relation.node)
    inner = with_free_names(inner, schema(relation.node).names)
    value = inner.relation.visible[0].column
    joined = join(relation.node, inner.relation.node, [], "none" if always else "left", inner.null_safe)
    if always:
        return relation.over(joined), value
    joined, (filled,) = extended(joined, [("__n", if_empty(node, replace(value, nullable=True)))])
    return relation.over(joined), filled


def _inner(relation: Relation, test: SubqueryTest, context: Context) -> Inner:
    """The query of a test, with the columns that the test needs."""
    bound = bind_inside(lambda inside: bind_query(test.query, inside), lambda: relation.node, relation.scope, context)
    if test.operator is None:
        outer: list[Output] = [(column.name, column) for _, column in bound.null_safe]
        node = logical.Project(bound.relation.node, (*outer, ("__t", _TRUE)))
        bound = Inner(Relation(node, bound.relation.scope, ()), bound.null_safe)
    elif len(bound.relation.visible) != len(test.values):
        raise error_at(test.query, f"the subquery has {len(bound.relation.visible)} columns, not {len(test.values)}")
    return with_free_names(bound, schema(relation.node).names)


def _theta(test: SubqueryTest, inner: Inner, relation: Relation) -> Expression:
    """θ, the condition on a row of the relation and a row of the query."""
    if test.operator is None:
        return _TRUE
    if len(test.values) > 1 and test.operator != "equal":
        raise not_supported(test.query, "a comparison of rows by order", "have: (a, b) IN (SELECT …)")
    try:
        pairs = zip(test.values, inner.relation.visible, strict=True)
        tests = [call(test.operator, bind_expression(value, relation.scope), entry.column) for value, entry in pairs]
    except UserError as error:
        raise error_at(test.query, error.message, hint=error.hint) from error
    condition = conjunction(tests)
    assert condition is not None
    return condition


def _truth(relation: Relation, test: SubqueryTest, context: Context) -> tuple[Relation, Expression]:
    """The three-valued truth of a test: TRUE if θ is TRUE for some row, else NULL if it is NULL for some row, else
    FALSE."""
    relation = with_values(relation, test.values, context)
    inner = _inner(relation, test, context)
    theta = _theta(test, inner, relation)
    pair = equality(theta, names_of(relation.node), names_of(inner.relation.node))
    relation, truth = _marked(relation, inner, theta)
    if theta.nullable:
        inner = with_free_names(inner, schema(relation.node).names)
        theta = _theta(test, inner, relation)
        relation, unknown = _unknown(relation, inner, theta) if pair is None else _null_side(relation, inner, theta)
        truth = call("case", truth, _TRUE, unknown, Literal(None, pa.bool_()), _FALSE)
    return relation, call("not", truth) if test.negated else truth


def _unknown(relation: Relation, inner: Inner, theta: Expression) -> tuple[Relation, Expression]:
    """Whether θ is NULL for some row of the query."""
    return _marked(relation, inner, call("is_null", theta))


def _null_side(relation: Relation, inner: Inner, theta: Expression) -> tuple[Relation, Expression]:
    """Whether x = y is NULL for some row of the query: some y is NULL, or x is NULL and the query has a row."""
    pair = equality(theta, names_of(relation.node), names_of(inner.relation.node))
    assert pair is not None
    value, inner_value = pair
    tests: list[Expression] = []
    if inner_value.nullable:
        node = filtered(inner.relation.node, [call("is_null", inner_value)])
        null_rows = Inner(inner.relation.over(node), inner.null_safe)
        relation, some = _marked(relation, null_rows, _TRUE)
        tests.append(some)
    if value.nullable:
        inner = with_free_names(inner, schema(relation.node).names)
        relation, some = _marked(relation, inner, _TRUE)
        tests.append(call("and", call("is_null", value), some))
    return relation, tests[0] if len(tests) == 1 else call("or", *tests)


def _marked(relation: Relation, inner: Inner, theta: Expression) -> tuple[Relation, Expression]:
    """The relation, and whether θ is TRUE for some row of the query, as an expression that is never NULL."""
    left, right = relation.node, inner.relation.node
    taken = [*schema(left).names, *schema(right).names]
    mark = unique_name("__t", taken)
    tests = [part for part in conjuncts(theta) if part != _TRUE]
    pairs = [pair for part in tests if (pair := equality(part, names_of(left), names_of(right))) is not None]
    if len(pairs) < len(tests):
        node = _by_domain(left, inner, theta, mark)
    else:
        keys = dict.fromkeys([*(inner_column for _, inner_column in inner.null_safe), *(value for _, value in pairs)])
        named = {value: _name(value, f"__k{at}", taken) for at, value in enumerate(keys)}
        rows = _marks(logical.Project(right, tuple((name, value) for value, name in named.items())), mark)
        conditions = [
            call("equal", own_value, Column(named[value], value.type, value.nullable)) for own_value, value in pairs
        ]
        node = join(left, rows if named else _any_row(right, mark), conditions, "left", inner.null_safe)
    return relation.over(node), call("is_not_null", Column(mark, pa.bool_(), True))


def _name(value: Expression, name: str, taken: list[str]) -> str:
    return value.name if isinstance(value, Column) else unique_name(name, taken)


def _marks(rows: logical.Node, mark: str) -> logical.Node:
    outputs = tuple((field.name, Column(field.name, field.type, field.nullable)) for field in schema(rows))
    return logical.Project(distinct(rows), (*outputs, (mark, _TRUE)))


def _any_row(rows: logical.Node, mark: str) -> logical.Node:
    return logical.Distinct(logical.Project(rows, ((mark, _TRUE),)))


def _by_domain(left: logical.Node, inner: Inner, theta: Expression, mark: str) -> logical.Node:
    """Tests each distinct value of the columns that the test needs, and joins the marks back to the rows."""
    left_schema = schema(left)
    used = [
        name
        for name in left_schema.names
        if name in columns(theta) or any(name == column.name for column, _ in inner.null_safe)
    ]
    taken = [*left_schema.names, *schema(inner.relation.node).names, mark]
    names = {name: unique_name(f"__e{at}", taken) for at, name in enumerate(used)}
    outer = {name: Column(name, left_schema.field(name).type, left_schema.field(name).nullable) for name in used}
    if not used:
        satisfied = semi_join(_any_row(left, mark), inner.relation.node, [theta])
        return join(left, satisfied, [], "left")
    domain = distinct(logical.Project(left, tuple((names[name], column) for name, column in outer.items())))
    null_safe = [(replace(column, name=names[column.name]), inner_column) for column, inner_column in inner.null_safe]
    satisfied = semi_join(domain, inner.relation.node, [substituted(theta, names)], null_safe)
    back = [(column, replace(column, name=names[name])) for name, column in outer.items()]
    return join(left, _marks(satisfied, mark), [], "left", back)


def substituted(expression: Expression, names: dict[str, str]) -> Expression:
    """The expression over renamed columns."""
    if isinstance(expression, Column):
        return replace(expression, name=names.get(expression.name, expression.name))
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(substituted(argument, names) for argument in expression.arguments))
    return expression
