"""Binds ESL's windows: aggregates OVER (… PRECEDING [SLIDE … | ACTIVE EXPIRATION]) of a stream, in its row order.

Each becomes a fold (`StreamFold`), which passes every arriving row to the aggregate and keeps only the state of the
aggregate and the rows of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.properties import append_only, sources
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.aggregate_calls import AggregateCall, aggregate_call
from dsms.sql.binder.aggregates.defined_aggregates import BUILT_IN, AggregateLookup
from dsms.sql.binder.aggregates.grouping import defined_call
from dsms.sql.binder.query.order_and_limit import value_of
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.conditions import extended, unique_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.windows.window_lengths import instants_of, is_bare, positive, rows_of
from dsms.sql.parser.nodes import Span
from operators.core.errors import UserError
from operators.expressions import Column, Expression, Literal, call, cast
from operators.streams.tagger import TS
from operators.user_aggregates.definition import Definition
from operators.user_aggregates.fold_plan import FoldCall, Frame, chosen
from operators.user_aggregates.paired_results import PairedResults
from operators.user_aggregates.stream_fold import StreamFold


@dataclass(frozen=True)
class _BoundCall:
    """A call with OVER: its base and window definitions, its arguments, the columns of PARTITION BY, and its frame."""

    node: exp.Window
    base: Definition | None
    window: Definition | None
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    frame: Frame
    built_in: bool

    @property
    def algebraic(self) -> bool:
        """Whether results of the aggregate over parts of a window can be its arguments over the whole window."""
        return any(definition is not None and definition.algebraic for definition in (self.base, self.window))


def is_fold(window: exp.Window, relation: Relation) -> bool:
    """Whether a call with OVER is one of ESL's: of a user-defined aggregate, with SLIDE or ACTIVE EXPIRATION, or of a
    built-in aggregate over a RANGE without ORDER BY, which follows the order of the stream."""
    parsed, spec = _call_of(window), window.args.get("spec")
    if parsed is None:
        return False
    if parsed.lookup is not None or (spec is not None and (spec.args.get("slide") or spec.args.get("active"))):
        return True
    plain = spec is not None and not window.args.get("order") and parsed.function.name in BUILT_IN
    return bool(plain) and _is_range(spec) and append_only(relation.node)


def _is_range(spec: exp.Expr | None) -> bool:
    return spec is not None and str(spec.args.get("kind")).upper() == "RANGE" and not spec.args.get("end")


def _call_of(window: exp.Window) -> AggregateCall | None:
    return aggregate_call(window.this)


def with_folds(relation: Relation, windows: Sequence[exp.Window], context: Context) -> Relation:
    """The relation with the results of ESL's windows; its scope resolves them."""
    first = windows[0]
    if not append_only(relation.node):
        hint = "rows can leave a relation: use GROUP BY, or a stream without a key"
        raise error_at(first, "an aggregate over the last rows needs a stream", hint=hint)
    bound = [_bound(window, relation, context) for window in windows]
    kinds = list(dict.fromkeys((window.partition, window.frame) for window in bound))
    if len(kinds) > 1 and any(frame.slide or frame.active for _, frame in kinds):
        raise error_at(
            first, "windows with SLIDE or ACTIVE EXPIRATION must all be the same", hint="use a SELECT for each"
        )
    node, computed = relation.node, dict(relation.scope.computed)
    groups = [[window for window in bound if (window.partition, window.frame) == kind] for kind in kinds]
    built_in = [group for group in groups if all(window.built_in for window in group)]
    user_defined = [group for group in groups if group not in built_in]
    # A user-defined aggregate may return any number of rows for a row of the stream, but every window must read the
    # rows of the stream itself. So windows of built-in aggregates come first, and several windows of user-defined ones
    # are computed side by side.
    for group in [*built_in, *user_defined] if len(user_defined) < 2 else built_in:
        node, made = _folded(node, group)
        computed |= made
    if len(user_defined) > 1:
        node, results = _side_by_side(node, user_defined)
        computed |= results
    return replace(relation, node=node, scope=replace(relation.scope, computed=computed))


def _folded(
    node: logical.Node, calls: list[_BoundCall], *, listed: bool = False
) -> tuple[logical.Node, dict[int, Column]]:
    """The plan with the results of calls that have the same window, and the column of each. With `listed`, a column
    has lists of all values that its call returns for a row."""
    partition = calls[0].partition
    values = [(f"__p{at}", value) for at, value in enumerate(partition)]
    values += [
        (f"__a{at}_{n}", value) for at, bound_call in enumerate(calls) for n, value in enumerate(bound_call.arguments)
    ]
    node, columns = extended(node, values)
    keys = tuple(column.name for column in columns[: len(partition)])
    rest = [column.name for column in columns[len(partition) :]]
    arguments = []
    for bound_call in calls:
        arguments.append(tuple(rest[: len(bound_call.arguments)]))
        rest = rest[len(bound_call.arguments) :]
    frame = calls[0].frame
    if (pane := _pane(calls)) > 1:
        assert frame.length is not None and frame.slide is not None
        node, panes = _applied(node, calls, arguments, keys, Frame("rows", pane, pane))
        slide = frame.slide // pane
        frame = Frame("rows", frame.length // pane, None if slide == 1 else slide)
        arguments = [(column.name,) for column in panes]
    node, results = _applied(node, calls, arguments, keys, frame, listed=listed)
    return node, {id(bound_call.node): column for bound_call, column in zip(calls, results, strict=True)}


def _side_by_side(node: logical.Node, groups: list[list[_BoundCall]]) -> tuple[logical.Node, dict[int, Expression]]:
    """The plan with the results of several windows, each computed over the rows of the stream itself."""
    lists: list[list[Column]] = []
    for group in groups:
        node, made = _folded(node, group, listed=True)
        lists.append([made[id(bound_call.node)] for bound_call in group])
    columns = [column for group in lists for column in group]
    names, fields = list(schema(node).names), []
    for column in columns:
        assert isinstance(column.type, pa.ListType)
        fields.append(pa.field(unique_name("__w", names), column.type.value_type))
        names.append(fields[-1].name)
    paired = PairedResults(tuple(tuple(column.name for column in group) for group in lists), tuple(fields))
    results = [Column(field.name, field.type, True) for field in fields]
    nodes = [bound_call.node for group in groups for bound_call in group]
    computed: dict[int, Expression] = {id(call_node): result for call_node, result in zip(nodes, results, strict=True)}
    return logical.Apply(node, paired), computed


def _pane(calls: list[_BoundCall]) -> int:
    """The number of rows of a pane, which every window holds as a whole or not at all; 1 if panes cannot be used."""
    frame = calls[0].frame
    slides = frame.kind == "rows" and frame.length is not None and frame.slide is not None
    if not slides or not all(bound_call.algebraic for bound_call in calls):
        return 1
    assert frame.length is not None and frame.slide is not None
    return gcd(frame.length, frame.slide) if frame.slide < frame.length else 1


def _applied(
    node: logical.Node,
    calls: list[_BoundCall],
    arguments: list[tuple[str, ...]],
    keys: tuple[str, ...],
    frame: Frame,
    *,
    listed: bool = False,
) -> tuple[logical.Node, list[Column]]:
    folds: list[FoldCall] = []
    names = list(schema(node).names)
    for bound_call, named in zip(calls, arguments, strict=True):
        name = unique_name("__w", names)
        names.append(name)
        try:
            folds.append(chosen(name, bound_call.base, bound_call.window, named, frame))
        except UserError as error:
            raise error_at(bound_call.node, error.message, hint=error.hint) from error
    fold = StreamFold(keys, tuple(folds), frame, schema(node), listed)
    return logical.Apply(node, fold), [Column(made.name, made.type, True) for made in fold.added]


# --- binding of a call


def _bound(window: exp.Window, relation: Relation, context: Context) -> _BoundCall:
    scope = relation.scope
    parsed = _call_of(window)
    assert parsed is not None
    if parsed.distinct or parsed.order:
        raise error_at(window, "DISTINCT and ORDER BY are not supported in a call with OVER")
    base, for_windows, arguments = _definitions(window, parsed, scope, context)
    if base is None and for_windows is None:
        have = ", ".join(sorted(BUILT_IN))
        raise error_at(
            window, f'"{parsed.function.name}" is not an aggregate for windows of a stream', hint=f"have: {have}"
        )
    partition = tuple(bind_expression(key, scope) for key in window.args.get("partition_by") or ())
    _check_order(window, relation)
    return _BoundCall(
        window, base, for_windows, arguments, partition, fold_frame_of(window), built_in=parsed.lookup is None
    )


def _definitions(
    window: exp.Window, parsed: AggregateCall, scope: Scope, context: Context
) -> tuple[Definition | None, Definition | None, tuple[Expression, ...]]:
    if parsed.lookup is None:
        return _built_in(parsed, scope, context)
    if parsed.condition is not None:
        raise error_at(window, "FILTER is not supported for a user-defined aggregate with OVER", hint="use WHERE")
    base, arguments = defined_call(window, parsed, scope)
    for_windows, window_arguments = defined_call(window, parsed, scope, window=True)
    if (
        base is not None
        and for_windows is not None
        and [t for _, t in base.parameters] != [t for _, t in for_windows.parameters]
    ):
        base = None
    return base, for_windows, arguments if base is not None else window_arguments


def _built_in(
    parsed: AggregateCall, scope: Scope, context: Context
) -> tuple[Definition | None, Definition | None, tuple[Expression, ...]]:
    """The library's definitions of one of SQL's five aggregates, and the arguments. Sums of integers are BIGINT."""
    name, known = parsed.function.name, AggregateLookup(context.catalog)
    values = [bind_expression(argument, scope) for argument in parsed.arguments] or [Literal(True, pa.bool_())]
    if name == "sum" and pa.types.is_integer(values[0].type):
        values = [cast(values[0], pa.int64())]
    if pa.types.is_decimal(values[0].type):
        values = [cast(values[0], pa.float64())]
    if parsed.condition is not None:
        condition = predicate(parsed.condition, scope, "FILTER")
        values = [call("case", condition, values[0], Literal(None, pa.null()))]
    types = tuple(value.type for value in values)
    base, for_windows = known.base(name, types), known.window(name, types)
    definition = base or for_windows
    if definition is None:
        return None, None, ()
    return base, for_windows, tuple(cast(v, type_) for v, (_, type_) in zip(values, definition.parameters, strict=True))


def _check_order(window: exp.Window, relation: Relation) -> None:
    """Raises SqlError unless ORDER BY is left out, or names the instant of the stream's rows in ascending order."""
    order = window.args.get("order")
    times = {TS, *(source.timestamp for source in sources(relation.node))}
    for item in order.expressions if order else ():
        value = bind_expression(value_of(item), relation.scope)
        if item.args.get("desc") or not isinstance(value, Column) or value.name not in times:
            raise error_at(item, "windows of a stream follow the order of its rows", hint="leave out ORDER BY")


def fold_frame_of(window: exp.Window) -> Frame:
    """The frame of a call with OVER. Raises SqlError for one that does not end with the current row."""
    spec = window.args.get("spec")
    if spec is None:
        return Frame("range", None)
    kind = str(spec.args.get("kind")).upper()
    if kind not in ("ROWS", "RANGE") or str(spec.args.get("end") or "CURRENT ROW").upper() != "CURRENT ROW":
        raise error_at(
            spec, "a window of a stream ends with the current row", hint="ROWS n PRECEDING, RANGE n PRECEDING"
        )
    length = _length(spec, kind)
    slide = spec.args.get("slide")
    if spec.args.get("active") and (kind == "ROWS" or length is None):
        raise error_at(spec, "ACTIVE EXPIRATION needs a RANGE: rows leave a ROWS window only when another row arrives")
    distance = None
    if slide is not None:
        distance = rows_of(slide, "SLIDE") if kind == "ROWS" else positive(slide, "SLIDE")
    return Frame("rows" if kind == "ROWS" else "range", length, distance, active=bool(spec.args.get("active")))


def _length(spec: exp.Expr, kind: str) -> int | None:
    start, side = spec.args["start"], str(spec.args.get("start_side") or "").upper()
    if isinstance(start, str):
        if start.upper() == "UNBOUNDED":
            return None
        return 1 if kind == "ROWS" else 0
    if side != "PRECEDING":
        raise error_at(spec, "a window of a stream begins before the current row", hint=f"{kind} n PRECEDING")
    span = start if isinstance(start, Span | exp.Interval) else Span(this=start)
    if kind == "ROWS":
        if not is_bare(span) or not start.name.isdecimal():
            raise error_at(spec, "ROWS takes a whole number of rows")
        return int(start.name) + 1
    return instants_of(span)
