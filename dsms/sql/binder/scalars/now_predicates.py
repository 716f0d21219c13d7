"""Binds predicates over Now: linear comparisons become ranges of instants (SyncSQL sections 2.2 and 3.3).

`Now - 5 < R.TS AND R.TS <= Now` holds for Now in [R.TS, R.TS + 5): the row exists at these instants. Conditions are
converted to disjunctive normal form. Each disjunct becomes one range, and its parts without Now a condition of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.conditions import all_of
from dsms.sql.binder.scalars.now_bounds import NOW_HINT, Bound, bound_of, next_point, tightest
from dsms.sql.binder.scalars.predicates import is_now, predicate
from dsms.sql.binder.scope import Scope
from operators.expressions import Expression, call
from operators.windows.now_filter import NowRange

_MAX_DISJUNCTS = 64
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}

#: A literal of the disjunctive form: a bound of Now, or a predicate on the row alone.
Part = Bound | Expression
#: Disjuncts, each a conjunction of parts.
Form = list[tuple[Part, ...]]


def now_filter(conjuncts: list[exp.Expr], relation: Relation, context: Context) -> logical.Node:
    """The rows that satisfy predicates over Now, at the instants at which they do. Raises SqlError."""
    forms = [_form(conjunct, relation.scope) for conjunct in conjuncts]
    disjuncts = _conjunction(forms, conjuncts[0])
    return logical.NowFilter(relation.node, tuple(dict.fromkeys(map(_range, disjuncts))))


def mentions_now(node: exp.Expr, scope: Scope) -> bool:
    """Whether a condition contains Now."""
    return any(is_now(column, scope) for column in node.find_all(exp.Column))


def _form(node: exp.Expr, scope: Scope, negated: bool = False) -> Form:
    if not mentions_now(node, scope):
        plain = predicate(node, scope)
        return [(call("not", plain) if negated else plain,)]
    match node:
        case exp.Paren():
            return _form(node.this, scope, negated)
        case exp.Not():
            return _form(node.this, scope, not negated)
        case exp.And() | exp.Or():
            sides = [_form(node.this, scope, negated), _form(node.expression, scope, negated)]
            every = isinstance(node, exp.And) is not negated
            return _conjunction(sides, node) if every else [*sides[0], *sides[1]]
        case exp.Between():
            return _between(node, scope, negated is not bool(node.args.get("negate")))
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node, _NEGATED[type(node)] if negated else type(node), scope)
    raise error_at(node, f'"{node.sql()}" is not a comparison with Now', hint=NOW_HINT)


def _between(node: exp.Between, scope: Scope, negated: bool) -> Form:
    sides = (
        _compared(node.this, node.args["low"], exp.LT if negated else exp.GTE, scope),
        _compared(node.this, node.args["high"], exp.GT if negated else exp.LTE, scope),
    )
    return [*sides[0], *sides[1]] if negated else _conjunction(list(sides), node)


def _comparison(node: exp.Expr, kind: type[exp.Expr], scope: Scope) -> Form:
    return _compared(node.this, node.expression, kind, scope)


def _compared(left: exp.Expr, right: exp.Expr, kind: type[exp.Expr], scope: Scope) -> Form:
    if kind is exp.NEQ:
        return [*_compared(left, right, exp.LT, scope), *_compared(left, right, exp.GT, scope)]
    return [(bound_of(left, right, kind, scope),)]


def _conjunction(forms: list[Form], node: exp.Expr) -> Form:
    """The conjunction of forms. Raises SqlError if it has too many disjuncts."""
    if reduce(lambda count, form: count * len(form), forms, 1) > _MAX_DISJUNCTS:
        raise error_at(node, f"a condition over Now has more than {_MAX_DISJUNCTS} alternatives")
    return [tuple(part for parts in chosen for part in parts) for chosen in product(*forms)]


def _range(parts: tuple[Part, ...]) -> NowRange:
    bounds = [part for part in parts if isinstance(part, Bound)]
    plain = [part for part in parts if not isinstance(part, Bound)]
    condition = all_of(plain) if plain else None
    lower = tightest("greatest", _values(bounds, "lower"))
    upper = tightest("least", _values(bounds, "upper"))
    return NowRange(lower, upper, condition)


def _values(bounds: list[Bound], side: str) -> Iterator[Expression]:
    for bound in bounds:
        value = bound.lower if side == "lower" else bound.upper
        if value is not None:
            yield next_point(value, bound.points)
