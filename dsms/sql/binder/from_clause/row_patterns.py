"""Binds MATCH_RECOGNIZE: the matches of a row pattern in the partitions of a relation, and the measures of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.aggregate_calls import aggregate_call
from dsms.sql.binder.query.order_and_limit import sort_key, value_of
from dsms.sql.binder.relation import Context, Relation, bind_relation, relation_of
from dsms.sql.binder.scalars.conditions import extended
from dsms.sql.binder.scalars.expression_functions import arguments_of, function_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.streams.arrival import breaking_ties
from dsms.sql.parser import nodes
from operators.aggregates import AGGREGATES
from operators.core.errors import SqlError, UserError
from operators.expressions import Column, Expression, Interval, Literal, column
from operators.patterns.conditions import Condition
from operators.patterns.match import CLASSIFIER, NUMBER, Match
from operators.patterns.navigation import Kind, Navigation
from operators.patterns.pattern import Pattern, parse_pattern, variable_name, variables
from operators.patterns.search import Skip

_NAVIGATIONS: dict[str, Kind] = {"prev": "prev", "next": "next", "first": "first", "last": "last"}
_AGGREGATES: dict[str, Kind] = {"count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max"}
_MATCH_COLUMNS = {
    "match_number": Column(NUMBER, pa.int64(), False),
    "classifier": Column(CLASSIFIER, pa.string(), False),
}
_MAX_OFFSET = 10_000


@bind_relation.register(nodes.RowPattern)
def _(node: exp.Expr, context: Context) -> Relation:
    """The partition and the measures of each match; with ALL ROWS PER MATCH each of its rows, and the measures."""
    relation = bind_relation(node.this, context)
    pattern = _pattern(node)
    partition = [_column(key, relation) for key in node.args.get("partition") or []]
    keys = node.args["order"].expressions if node.args.get("order") else []
    if not keys:
        raise error_at(node, "MATCH_RECOGNIZE needs ORDER BY", hint="for example ORDER BY t")
    arrived = breaking_ties(relation.node)
    plan, ordered = extended(
        arrived.node, [("__order", bind_expression(value_of(key), relation.scope)) for key in keys]
    )
    binder = _PatternBinder(plan, relation.scope, tuple(variables(pattern)))
    conditions = tuple(_conditions(node, binder))
    measures = [(measure.alias, binder.measure(measure.this)) for measure in _measures(node)]
    matched = Match(
        tuple(dict.fromkeys((*context.outer_columns, *(key.name for key in partition)))),
        (*(sort_key(key, value.name) for key, value in zip(keys, ordered, strict=True)), *arrived.order),
        pattern,
        conditions,
        tuple(binder.measure_navigations),
        every=bool(node.args.get("every")),
        skip=_skip(node, binder.variables),
        within=_within(node, ordered[0], relation.scope),
    )
    visible = [entry.column for entry in relation.visible] if matched.every else partition
    return _result(node, logical.Apply(binder.plan, matched), (visible, measures), context)


def _result(
    node: exp.Expr,
    plan: logical.Node,
    parts: tuple[Sequence[Column], Sequence[tuple[str, Expression]]],
    context: Context,
) -> Relation:
    """The columns of the result under their names."""
    columns, measures = parts
    outputs = [*((each.name, each) for each in columns), *measures]
    names = [name.lower() for name, _ in outputs]
    for name in names:
        if names.count(name) > 1:
            raise error_at(node, f'MATCH_RECOGNIZE has two columns "{name}"', hint="name the measure differently")
    outer = [(name, column(schema(plan).field(name))) for name in context.outer_columns]
    projected = logical.Project(plan, (*outer, *outputs))
    fields = schema(projected)
    return relation_of(
        projected, pa.schema([fields.field(name) for name, _ in outputs]), node.args.get("alias") and node.alias
    )


@dataclass
class _PatternBinder:
    """Binds conditions and measures. Collects their navigations, the parts that read other rows, such as PREV(v), and
    adds the columns that navigations read to `plan`."""

    plan: logical.Node
    scope: Scope
    variables: tuple[str, ...]
    measure_navigations: list[Navigation] = field(default_factory=list)
    _count: int = 0

    def condition(self, variable: str, node: exp.Expr) -> Condition:
        """The condition of a variable."""
        found: list[Navigation] = []
        known = dict(self._navigations(node, variable, found))
        scope = replace(self.scope, computed={**self.scope.computed, **known})
        return Condition(variable, predicate(node, scope, "DEFINE"), tuple(found))

    def measure(self, node: exp.Expr) -> Expression:
        """A measure, as an expression over the row that is shown and the columns of the navigations."""
        known = dict(self._navigations(node, None, self.measure_navigations))
        return bind_expression(node, replace(self.scope, computed={**self.scope.computed, **known}))

    def _navigations(
        self, node: exp.Expr, current: str | None, found: list[Navigation]
    ) -> Iterable[tuple[int, Expression]]:
        """The nodes that name a variable or read other rows, by `id`, each with the expression that replaces it.
        Navigations are added to `found`."""
        for part in node.walk(
            prune=lambda inner: isinstance(inner, exp.Query) or self._kind(inner, current) is not None
        ):
            kind = self._kind(part, current)
            if kind in _MATCH_COLUMNS:
                if current is not None:
                    raise error_at(part, f"{kind.upper()} can only be used in MEASURES")
                yield id(part), _MATCH_COLUMNS[kind]
            elif kind == "own":
                yield id(part), self._bound(part)
            elif kind is not None:
                yield id(part), self._navigation(part, kind, current, found)

    def _kind(self, node: exp.Expr, current: str | None) -> str | None:
        """How a node reads rows: a kind of navigation, `own` for a column of the variable that is defined, or None."""
        if isinstance(node, exp.Column):
            variable = self._qualifier(node)
            if not variable:
                return None
            return "own" if variable == current else "last"
        if not isinstance(node, exp.Func):
            return None
        name = function_name(node)
        return name if name in _NAVIGATIONS or name in _AGGREGATES or name in _MATCH_COLUMNS else None

    def _navigation(self, node: exp.Expr, kind: str, current: str | None, found: list[Navigation]) -> Column:
        argument, offset = self._argument(node, kind)
        variable = self._variable(node, argument)
        if kind in ("prev", "next"):
            offset = 1 if offset is None else offset
            if current is None:
                raise error_at(node, f"{kind.upper()} can only be used in DEFINE", hint="in MEASURES use LAST(X.v, 1)")
            if variable not in ("", current):
                raise error_at(node, f"{kind.upper()} reads rows of the partition, not the rows of a variable")
            variable = ""
        bound = self._bound(argument) if argument is not None else None
        name, type_ = f"__n{self._count}", self._type(node, kind, bound)
        self._count += 1
        source = ""
        if bound is not None:
            self.plan, (value,) = extended(self.plan, [(f"__v{self._count}", bound)])
            source = value.name
        made = Navigation(name, (_NAVIGATIONS | _AGGREGATES)[kind], source, type_, variable, offset or 0)
        found.append(made)
        return Column(name, type_, kind != "count")

    def _argument(self, node: exp.Expr, kind: str) -> tuple[exp.Expr | None, int | None]:
        """The expression that a navigation reads, and how many rows away it reads it, if that is given."""
        if isinstance(node, exp.Column):
            return node, None
        if kind in _AGGREGATES:
            call = aggregate_call(node)
            if call is None or call.distinct or call.order or call.condition is not None or len(call.arguments) > 1:
                raise error_at(node, "DISTINCT, ORDER BY and FILTER are not supported in MATCH_RECOGNIZE")
            return (call.arguments[0] if call.arguments else None), None
        arguments = list(arguments_of(node))
        if not 1 <= len(arguments) <= 2:
            raise error_at(node, f"{kind.upper()} takes a value and a number of rows")
        return arguments[0], self._offset(arguments[1]) if len(arguments) == 2 else None

    def _offset(self, node: exp.Expr) -> int:
        bound = bind_expression(node, self.scope)
        if isinstance(bound, Literal) and isinstance(bound.value, int) and 0 <= bound.value <= _MAX_OFFSET:
            return bound.value
        raise error_at(node, f"the number of rows must be a constant from 0 to {_MAX_OFFSET:,}")

    def _variable(self, node: exp.Expr, argument: exp.Expr | None) -> str:
        """The variable whose rows a navigation reads; "" for all rows."""
        named = {self._qualifier(each) for each in argument.find_all(exp.Column)} if argument is not None else {""}
        if len(named) > 1:
            raise error_at(node, "the columns of one argument belong to different variables")
        return next(iter(named), "")

    def _qualifier(self, column: exp.Expr) -> str:
        """The variable in front of a column; "" if it has none."""
        name = _name_of(column.args.get("table"))
        return name if name in self.variables else ""

    def _bound(self, node: exp.Expr) -> Expression:
        """An expression over a row, without the variables in front of its columns."""
        plain = node.copy()
        for each in plain.find_all(exp.Column):
            if self._qualifier(each):
                each.set("table", None)
        return bind_expression(plain, self.scope)

    def _type(self, node: exp.Expr, kind: str, value: Expression | None) -> pa.DataType:
        if kind in _NAVIGATIONS:
            assert value is not None
            return value.type
        if kind in ("min", "max") and value is not None and pa.types.is_nested(value.type):
            raise error_at(node, f"{kind.upper()} in MATCH_RECOGNIZE does not take arrays or structs")
        try:
            return AGGREGATES[kind].result(() if value is None else (value.type,), ())
        except UserError as error:
            raise error_at(node, error.message, hint=error.hint) from error


def _pattern(node: exp.Expr) -> Pattern:
    try:
        return parse_pattern(node.args["pattern"])
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error


def _conditions(node: exp.Expr, binder: _PatternBinder) -> Iterable[Condition]:
    """The conditions of DEFINE; a variable without one matches any row."""
    known: set[str] = set()
    for definition in node.expressions:
        name = _name_of(definition.args["alias"])
        if name not in binder.variables:
            raise _unknown(definition, name, binder.variables)
        if name in known:
            raise error_at(definition, f'variable "{name}" is defined twice')
        known.add(name)
        yield binder.condition(name, definition.this)


def _measures(node: exp.Expr) -> list[exp.Expr]:
    for measure in node.args.get("measures") or []:
        if measure.meta.get("final") == "FINAL" and node.args.get("every"):
            raise error_at(
                measure,
                "FINAL with ALL ROWS PER MATCH is not supported",
                hint="join with the same MATCH_RECOGNIZE with ONE ROW PER MATCH",
            )
    return list(node.args.get("measures") or [])


def _skip(node: exp.Expr, known: tuple[str, ...]) -> Skip:
    kind, *named = node.args.get("skip") or ["past"]
    if not named:
        return Skip(kind)
    if (variable := _name_of(named[0])) not in known:
        raise _unknown(node, variable, known)
    return Skip(kind, variable)


def _name_of(identifier: exp.Expr | None) -> str:
    """The name of a variable: in upper case unless it is quoted."""
    if identifier is None:
        return ""
    return identifier.name if identifier.args.get("quoted") else variable_name(identifier.name)


def _unknown(node: exp.Expr, name: str, known: Sequence[str]) -> SqlError:
    return error_at(node, f'"{name}" is not a variable of PATTERN', hint=f"have: {', '.join(known)}")


def _within(node: exp.Expr, time: Column, scope: Scope) -> int | None:
    """The length of WITHIN in the unit of the order column: microseconds for a timestamp, its own unit for an integer.
    None without WITHIN."""
    if not (written := node.args.get("within")):
        return None
    bound = bind_expression(written, scope)
    value = bound.value if isinstance(bound, Literal) else None
    if pa.types.is_timestamp(time.type) and isinstance(value, Interval) and not value.months:
        return value.days * 86_400_000_000 + value.microseconds
    if pa.types.is_integer(time.type) and isinstance(value, int):
        return value
    raise error_at(written, "WITHIN needs an interval for a TIMESTAMP in ORDER BY, a number for an integer")


def _column(node: exp.Expr, relation: Relation) -> Column:
    bound = bind_expression(node, relation.scope)
    if not isinstance(bound, Column):
        raise error_at(node, "PARTITION BY of MATCH_RECOGNIZE takes columns")
    return bound
