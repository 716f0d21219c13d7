"""The text of plan nodes in EXPLAIN: one line for each node, close to the equivalent SQL."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from dsms.model import logical
from dsms.model.schema import schema
from operators.aggregates.aggregate import Aggregate
from operators.core.sort_key import SortKey
from operators.expressions import Expression, Literal, to_sql
from operators.ranking.window_call import FrameEnd, WindowCall
from operators.sync.sync_points import Periodic
from operators.windows.now_filter import NowRange

_COMPARISONS = {"greater": ">", "greater_or_equal": ">=", "less": "<", "less_or_equal": "<="}
_DEFAULT_FRAME = ("range", None, 0)


@singledispatch
def label(node: logical.Node) -> str:
    """A description of a node in one line, without its inputs.

    >>> import pyarrow as pa
    >>> label(logical.Values(pa.schema([("x", pa.int32())]), ((1,), (None,))))
    'Values (1), (NULL)'
    """
    raise TypeError(node)


@label.register
def _(node: logical.StreamScan) -> str:
    since = "" if node.start is None else f" since {node.start}"
    promises = "".join(
        f", {constraint.sql}"
        for constraint in node.source.constraints
        if node.promises and constraint.kind != "ordered"
    )
    first = "".join(f" from offset {offset} of partition {partition}" for partition, offset in node.first)
    return f"ℜ({node.stream}) over source {node.source.name}{promises}{since}{first}"


@label.register
def _(node: logical.Values) -> str:
    types = [field.type for field in node.schema]
    rows = [
        ", ".join(to_sql(Literal(value, kind)) for value, kind in zip(row, types, strict=True)) for row in node.rows
    ]
    return "Values " + ", ".join(f"({row})" for row in rows)


@label.register
def _(node: logical.Filter) -> str:
    return f"Filter {to_sql(node.predicate)}"


@label.register
def _(node: logical.Members) -> str:
    return f"Members {to_sql(node.predicate)}"


@label.register
def _(node: logical.Project) -> str:
    return "Project " + ", ".join(_output(name, to_sql(output)) for name, output in node.outputs)


@label.register
def _(node: logical.Restamp) -> str:
    return f"ℜ({node.view}) with TS"


@label.register
def _(node: logical.Join) -> str:
    kind = {"none": "Join", "left": "LeftJoin", "right": "RightJoin", "full": "FullJoin"}[node.outer]
    return kind + _partners(node.on, node.residual, nulls_equal=node.nulls_equal)


@label.register
def _(node: logical.SemiJoin) -> str:
    kind = "AntiJoin" if node.anti else "SemiJoin"
    return kind + _partners(node.on, node.residual, nulls_equal=node.nulls_equal)


def _partners(on: Iterable[tuple[str, str]], residual: Expression | None, *, nulls_equal: bool) -> str:
    equal = "is" if nulls_equal else "="
    tests = [f"{left} {equal} {right}" for left, right in on]
    tests += [] if residual is None else [to_sql(residual)]
    return " on " + " and ".join(tests) if tests else ""


@label.register
def _(node: logical.AsofJoin) -> str:
    time = f"{node.left_time} {_COMPARISONS[node.comparison]} {node.right_time}"
    equal = "".join(f"{left} = {right} and " for left, right in node.on)
    return f"Asof{'Left' if node.outer else ''}Join on {equal}{time}"


@label.register
def _(node: logical.Union) -> str:
    return "Union"


@label.register
def _(node: logical.Distinct) -> str:
    return "Distinct"


@label.register
def _(node: logical.Recurrence) -> str:
    return f"Recurrence {', '.join(node.columns.names)}"


@label.register
def _(node: logical.Recursion) -> str:
    return f"Recursion {', '.join(schema(node).names)}; {len(node.rules)} rules"


@label.register
def _(node: logical.SetOperation) -> str:
    return node.kind.replace("_", " ").capitalize()


@label.register
def _(node: logical.GroupBy) -> str:
    keys = f"GroupBy {', '.join(node.keys)}" if node.keys else "GroupBy ()"
    return keys + "".join(f"; {_aggregate(aggregate)}" for aggregate in node.aggregates)


def _aggregate(aggregate: Aggregate) -> str:
    words = [*aggregate.arguments, *(repr(constant) for constant in aggregate.parameters)] or ["*"]
    inside = ("DISTINCT " if aggregate.distinct else "") + ", ".join(words) + _order(aggregate.order_by)
    condition = f" filter {aggregate.filter}" if aggregate.filter else ""
    return f"{aggregate.name} := {aggregate.function}({inside}){condition}"


def _order(keys: Iterable[SortKey]) -> str:
    words = ", ".join(_sort_key(key) for key in keys)
    return f" order by {words}" if words else ""


def _sort_key(key: SortKey) -> str:
    nulls = {None: "", True: " nulls first", False: " nulls last"}[key.nulls_first]
    return key.column + (" desc" if key.descending else "") + nulls


@label.register
def _(node: logical.TopK) -> str:
    partition = f" of each {', '.join(node.partition)}" if node.partition else ""
    last = "" if node.limit is None else str(node.offset + node.limit)
    rank = f" as {node.rank}" if node.rank else ""
    return f"TopK {node.method} {node.offset + 1}..{last}{rank}{partition}{_order(node.order)}"


@label.register
def _(node: logical.WindowFunctions) -> str:
    return "Over " + "; ".join(_window(call) for call in node.calls)


def _window(call: WindowCall) -> str:
    arguments = ", ".join([*call.arguments, *(repr(constant) for constant in call.parameters)])
    partition = f"partition by {', '.join(call.partition)}" if call.partition else ""
    frame = "" if (call.frame, call.start, call.end) == _DEFAULT_FRAME else f" {call.frame} {_frame(call)}"
    return f"{call.name} := {call.function}({arguments}) over ({(partition + _order(call.order) + frame).strip()})"


def _frame(call: WindowCall) -> str:
    return f"{_end(call.start, '-')}..{_end(call.end, '+')}"


def _end(end: FrameEnd, side: str) -> str:
    return f"{side}∞" if end is None else f"{end:+}" if end else "0"


@label.register
def _(node: logical.Unnest) -> str:
    return f"Unnest {node.column} as {node.output}" + (" or NULL" if node.outer else "")


@label.register
def _(node: logical.Sample) -> str:
    return f"Sample {node.percent:g} %" + (f" by {', '.join(node.keys)}" if node.keys else "")


@label.register
def _(node: logical.Shed) -> str:
    by = f" by {', '.join(node.by)}" if node.by else ""
    by += " by preference" if node.prefers else ""
    return f"Shed{by}" if node.where is None else f"Shed{by} where {node.where}"


@label.register
def _(node: logical.TimeWindow) -> str:
    length = "unbounded" if node.length is None else str(node.length)
    return f"[Range {length}{_slide(node.slide)}]"


@label.register
def _(node: logical.RowWindow) -> str:
    partition = f"Partition By {', '.join(node.partition)} " if node.partition else ""
    return f"[{partition}Rows {node.rows}{_slide(node.slide)}]"


def _slide(slide: int) -> str:
    return f" Slide {slide}" if slide != 1 else ""


@label.register
def _(node: logical.Assign) -> str:
    offset = f" offset {node.offset}" if node.offset else ""
    return f"Assign {node.kind} {node.column} size {node.size} slide {node.slide}{offset}"


@label.register
def _(node: logical.Apply) -> str:
    return node.function.describe()


@label.register
def _(node: logical.Session) -> str:
    partition = f" of each {', '.join(node.partition)}" if node.partition else ""
    return f"Session {node.column} gap {node.gap}{partition}"


@label.register
def _(node: logical.NowFilter) -> str:
    return "NowFilter " + " or ".join(_range(bounds) for bounds in node.ranges)


def _range(bounds: NowRange) -> str:
    lower = "-∞" if bounds.lower is None else to_sql(bounds.lower)
    upper = "∞" if bounds.upper is None else to_sql(bounds.upper)
    condition = "" if bounds.condition is None else f" if {to_sql(bounds.condition)}"
    return f"Now in [{lower}, {upper}){condition}"


@label.register
def _(node: logical.Sync) -> str:
    return "Sync" + (f" {_points(node.points)}" if isinstance(node.points, Periodic) else "")


def _points(points: Periodic) -> str:
    return f"every {points.period} at {', '.join(map(str, points.residues))}"


@label.register
def _(node: logical.ToStream) -> str:
    points = f" {_points(node.points)}" if node.points is not None else ""
    return node.kind.capitalize() + points


@label.register
def _(node: logical.Final) -> str:
    return f"Final at {node.bound}" + (f" + {node.after}" if node.after else "")


def _output(name: str, text: str) -> str:
    return name if text.strip('"') == name else f"{text} AS {name}"
