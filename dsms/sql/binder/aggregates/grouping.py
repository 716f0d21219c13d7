"""Binds GROUP BY and aggregates: projects the columns of keys and arguments, groups by the keys, and returns the scope
in which the select list is bound over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.planner.optimizer.sketches import expanded
from dsms.sql.binder.aggregates.aggregate_calls import AggregateCall, aggregate_call, constant
from dsms.sql.binder.aggregates.grouping_sets import GroupingSets
from dsms.sql.binder.from_clause.joins import join
from dsms.sql.binder.query.order_and_limit import sort_key, value_of
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.conditions import Output, own_columns, unique_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from dsms.sql.binder.scope import Rewrite, Scope
from dsms.sql.binder.streams.arrival import in_order_of_arrival
from operators.aggregates.aggregate import Aggregate
from operators.aggregates.user_defined import result_type
from operators.core.errors import SqlError, UserError
from operators.expressions import Column, Expression, Literal, call, cast, column, to_sql
from operators.user_aggregates.definition import Definition


@dataclass
class InputColumns:
    """The columns that the groups need from their input, in the order in which they are requested."""

    taken: list[str]
    outputs: dict[Expression, str] = field(default_factory=dict)

    def column(self, value: Expression, prefix: str) -> Column:
        """The column with this value: the value itself, if it is a column, or a computed one."""
        if value not in self.outputs:
            name = value.name if isinstance(value, Column) else unique_name(f"{prefix}{len(self.outputs)}", self.taken)
            self.outputs[value] = name
            self.taken.append(name)
        return Column(self.outputs[value], value.type, value.nullable)


@dataclass(frozen=True)
class GroupKeys:
    """The keys of groups: columns of the enclosing query (`outer`), the grouping sets, and the column of each key."""

    outer: tuple[Column, ...]
    sets: tuple[tuple[Expression, ...], ...]
    columns: dict[Expression, Column]

    def names(self, keys: tuple[Expression, ...]) -> list[str]:
        """The names of the columns of one set."""
        return [column.name for key, column in self.columns.items() if key in keys]


def grouped(relation: Relation, groups: GroupingSets, nodes: Sequence[exp.Expr], context: Context) -> Relation:
    """The groups of a relation, one row each. The scope of the result has the values of `nodes`, the aggregates and
    GROUPING calls."""
    inputs = InputColumns(list(schema(relation.node).names))
    keys = group_keys(relation, groups, inputs, context)
    aggregates, known = _aggregates(relation.scope, nodes, inputs)
    source = narrowed(relation.node, inputs)
    _check_rows_per_group(aggregates, groups, nodes)
    if groups.plain:
        plan = _group(source, keys, keys.sets[0], aggregates, context)
        plan, known = _unnested(plan, aggregates, known)
    else:
        grouping = [node for node in nodes if isinstance(node, exp.Grouping)]
        bits = [_bits(node, keys.sets, relation.scope) for node in grouping]
        known |= {id(node): Column(f"__b{at}", pa.int32(), False) for at, node in enumerate(grouping)}
        parts = [
            _padded(
                _group(source, keys, key_set, aggregates, context), keys, key_set, aggregates, [bit[at] for bit in bits]
            )
            for at, key_set in enumerate(keys.sets)
        ]
        plan = parts[0] if len(parts) == 1 else logical.Union(tuple(parts))
    return Relation(plan, group_scope(relation.scope, plan, keys, known, context), ())


def _check_rows_per_group(aggregates: tuple[Aggregate, ...], groups: GroupingSets, nodes: Sequence[exp.Expr]) -> None:
    several = [aggregate for aggregate in aggregates if aggregate.definition and aggregate.definition.returns_many]
    if len(several) > 1 or (several and not groups.plain):
        name = several[0].definition.name if several[0].definition else ""
        cause = f'aggregate "{name}" may return several rows'
        message = f"{cause}, so it cannot be combined with another such aggregate or with grouping sets"
        raise error_at(nodes[0], message, hint="use a SELECT for each, and join their results")


def _unnested(
    plan: logical.Node, aggregates: tuple[Aggregate, ...], known: dict[int, Expression]
) -> tuple[logical.Node, dict[int, Expression]]:
    """The groups. If an aggregate may return several rows for a group, the group is repeated for each of them."""
    for aggregate in aggregates:
        if aggregate.definition is not None and aggregate.definition.returns_many:
            row = Column(f"{aggregate.name}_row", aggregate.definition.result, True)
            plan = logical.Unnest(plan, aggregate.name, row.name)
            known = {
                node: row if isinstance(value, Column) and value.name == aggregate.name else value
                for node, value in known.items()
            }
    return plan, known


def group_keys(relation: Relation, groups: GroupingSets, inputs: InputColumns, context: Context) -> GroupKeys:
    """The keys of the groups; their columns are added to `inputs`."""
    fields = schema(relation.node)
    outer = tuple(inputs.column(column(fields.field(name)), "__d") for name in context.outer_columns)
    sets = tuple(tuple(bind_expression(key, relation.scope) for key in key_set) for key_set in groups.sets)
    every = dict.fromkeys(key for key_set in sets for key in key_set if not _is_outer(key, context))
    return GroupKeys(outer, sets, {key: inputs.column(key, "__g") for key in every})


def _aggregates(
    scope: Scope, nodes: Sequence[exp.Expr], inputs: InputColumns
) -> tuple[tuple[Aggregate, ...], dict[int, Expression]]:
    """The distinct aggregates, and the column of each node."""
    aggregates: dict[Aggregate, Aggregate] = {}
    known: dict[int, Expression] = {}
    for node in nodes:
        if (aggregate := aggregate_call(node)) is not None:
            bound = _bound_aggregate(node, aggregate, scope, inputs)
            named = aggregates.setdefault(bound, replace(bound, name=f"__v{len(aggregates)}"))
            known[id(node)] = Column(named.name, named.type, named.nullable)
    return tuple(aggregates.values()), known


def group_scope(
    inner: Scope, plan: logical.Node, keys: GroupKeys, known: dict[int, Expression], context: Context
) -> Scope:
    """The scope of the groups: the key columns under their names, and the computed values in `known`."""
    fields = schema(plan)
    above: dict[Expression, Column] = {column: column for column in _outer_columns(context)}
    above |= {key: column(fields.field(key_column.name)) for key, key_column in keys.columns.items()}
    entries = tuple(replace(entry, column=above[entry.column]) for entry in inner.entries if entry.column in above)
    return replace(Scope.of(entries, inner.outer), computed=known, rewrite=_rewrite(inner, above))


def _is_outer(value: Expression, context: Context) -> bool:
    return isinstance(value, Column) and value.name in context.outer_columns


def _outer_columns(context: Context) -> tuple[Column, ...]:
    return () if context.domain is None or context.outer is None else context.outer.columns


def narrowed(node: logical.Node, inputs: InputColumns) -> logical.Node:
    """The plan with only the columns in `inputs`."""
    outputs = tuple((name, value) for value, name in inputs.outputs.items())
    return node if not outputs or outputs == own_columns(node) else logical.Project(node, outputs)


def _bound_aggregate(node: exp.Expr, parsed: AggregateCall, scope: Scope, inputs: InputColumns) -> Aggregate:
    """The aggregate without its name."""
    if parsed.lookup is not None:
        return _user_defined(node, parsed, scope, inputs)
    function = parsed.function
    if parsed.distinct and not function.distinct:
        raise error_at(node, f'"{function.name}" does not take DISTINCT')
    arguments = tuple(inputs.column(bind_expression(argument, scope), "__a") for argument in parsed.arguments)
    constants = tuple(constant(node, scope, f'the constant of "{function.name}"') for node in parsed.constants)
    order = tuple(
        sort_key(item, inputs.column(bind_expression(value_of(item), scope), "__a").name) for item in parsed.order
    )
    condition = (
        None if parsed.condition is None else inputs.column(predicate(parsed.condition, scope, "FILTER"), "__a").name
    )
    try:
        type_ = function.result(tuple(column.type for column in arguments), constants)
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error
    names = tuple(column.name for column in arguments)
    return Aggregate("", function.name, names, type_, function.nullable, parsed.distinct, condition, order, constants)


def _user_defined(node: exp.Expr, parsed: AggregateCall, scope: Scope, inputs: InputColumns) -> Aggregate:
    """A user-defined aggregate, without its name."""
    definition, values = defined_call(node, parsed, scope)
    if definition is None:
        raise error_at(
            node,
            f'aggregate "{parsed.function.name}" has only a WINDOW definition',
            hint=f"define it for GROUP BY with CREATE AGGREGATE {parsed.function.name}, or use OVER (… PRECEDING)",
        )
    arguments = tuple(inputs.column(value, "__a").name for value in values)
    order = tuple(
        sort_key(item, inputs.column(bind_expression(value_of(item), scope), "__a").name) for item in parsed.order
    )
    condition = (
        None if parsed.condition is None else inputs.column(predicate(parsed.condition, scope, "FILTER"), "__a").name
    )
    function = f"{definition.name}@{fingerprint(definition)[:8]}"
    type_ = result_type(definition)
    return Aggregate("", function, arguments, type_, True, parsed.distinct, condition, order, definition=definition)


def defined_call(
    node: exp.Expr, parsed: AggregateCall, scope: Scope, *, window: bool = False
) -> tuple[Definition | None, tuple[Expression, ...]]:
    """The base or window definition of a call (None if it has no such definition), and the arguments, cast to the types
    of its parameters."""
    assert parsed.lookup is not None
    values = [bind_expression(argument, scope) for argument in parsed.arguments]
    types = tuple(value.type for value in values)
    try:
        find = parsed.lookup.window if window else parsed.lookup.base
        definition = find(parsed.function.name, types)
        if definition is None:
            return None, ()
        return definition, tuple(cast(v, type_) for v, (_, type_) in zip(values, definition.parameters, strict=True))
    except SqlError as error:
        raise error_at(node, error.message.partition(": ")[2], hint=error.hint) from error
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error


def _group(
    source: logical.Node,
    keys: GroupKeys,
    key_set: tuple[Expression, ...],
    aggregates: tuple[Aggregate, ...],
    context: Context,
) -> logical.Node:
    """The groups by a set of keys, for each binding of the outer columns. Without keys there is one row for each
    binding."""
    names = keys.names(key_set)
    groups = logical.GroupBy(source, (*(key.name for key in keys.outer), *names), aggregates)
    node = expanded(in_order_of_arrival(groups))
    if names or context.domain is None or context.caller_fills_empty:
        return node
    hidden = {key.name: unique_name(f"{key.name}'", schema(node).names) for key in keys.outer}
    inner = logical.Project(node, tuple((hidden.get(name, name), value) for name, value in own_columns(node)))
    null_safe = [(key, replace(key, name=hidden[key.name])) for key in keys.outer]
    with_empty_groups = join(context.domain, inner, [], "left", null_safe)
    values: list[Output] = [(column.name, column) for column in _outer_columns(context)]
    values += [(aggregate.name, _or_zero(aggregate)) for aggregate in aggregates]
    return logical.Project(with_empty_groups, tuple(values))


def _or_zero(aggregate: Aggregate) -> Expression:
    """The value of an aggregate; over no rows it is 0 for a count, NULL for other aggregates."""
    column = Column(aggregate.name, aggregate.type, True)
    return column if aggregate.nullable else call("coalesce", column, Literal(0, aggregate.type))


def _padded(
    node: logical.Node,
    keys: GroupKeys,
    key_set: tuple[Expression, ...],
    aggregates: tuple[Aggregate, ...],
    bits: Sequence[int],
) -> logical.Node:
    """The groups of one of several sets: keys outside the set are NULL."""
    fields = schema(node)
    outputs: list[Output] = [(key.name, column(fields.field(key.name))) for key in keys.outer]
    for key, key_column in keys.columns.items():
        outputs.append((key_column.name, key_column if key in key_set else Literal(None, key_column.type)))
    outputs += [(aggregate.name, column(fields.field(aggregate.name))) for aggregate in aggregates]
    outputs += [(f"__b{at}", Literal(bit, pa.int32())) for at, bit in enumerate(bits)]
    return logical.Project(node, tuple(outputs))


def _bits(node: exp.Expr, sets: tuple[tuple[Expression, ...], ...], scope: Scope) -> list[int]:
    """GROUPING(a, b): for each grouping set a number with one bit for each argument, which is 1 if the set does not
    group by the argument. For the sets (a, b), (a) and () of ROLLUP these are 0, 1 and 3."""
    values = [bind_expression(argument, scope) for argument in node.expressions]
    if unknown := [value for value in values if not any(value in key_set for key_set in sets)]:
        raise error_at(node, f'an argument of GROUPING is not in GROUP BY: "{to_sql(unknown[0])}"')
    return [sum((value not in key_set) << at for at, value in enumerate(reversed(values))) for key_set in sets]


def _rewrite(inner: Scope, above: dict[Expression, Column]) -> Rewrite:
    """Replaces key expressions by their columns in the groups (`above`). Raises SqlError for a column that is not a
    key."""

    def rewrite(node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Query | exp.Literal | exp.Null | exp.Boolean):
            return None
        try:
            value = bind_expression(node, inner)
        except UserError:
            return None
        if value in above:
            return above[value]
        if isinstance(node, exp.Column) and isinstance(value, Column):
            raise error_at(node, f'column "{node.sql()}" must be in GROUP BY or in an aggregate')
        return None

    return rewrite
