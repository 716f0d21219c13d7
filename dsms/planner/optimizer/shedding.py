"""Prepares a plan for load shedding: counts, sums and averages of a stream become estimates with errors.

A Shed node is inserted below the group-by and below the lookups of its input (`shed_lookups`). Each row that it keeps
has a share, the inverse of the probability with which it was kept. The aggregates become estimates over these shares
(`shed_estimates`), which are exact as long as nothing is shed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import append_only, walk
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.carried_column import OverStream, with_carried_column
from dsms.planner.optimizer.error_columns import CONFIDENCE, ERROR, with_errors
from dsms.planner.optimizer.shed_estimates import SHEDDABLE, EstimateInputs, estimate
from dsms.planner.optimizer.shed_lookups import lookup_of, stream_below, stream_origin, with_shed
from dsms.planner.optimizer.shed_measures import measures
from operators.aggregates import ALIASES
from operators.aggregates.aggregate import Aggregate
from operators.core.errors import UserError
from operators.expressions import Column, columns

#: The column that says whether a row may be dropped.
_ONLY = "__only"
#: The SQL names of the nodes that cannot be above the group-by.
_CONSTRUCTS = {
    logical.Join: "a join",
    logical.AsofJoin: "an as-of join",
    logical.Union: "UNION",
    logical.Distinct: "DISTINCT",
    logical.Recursion: "WITH RECURSIVE",
    logical.SetOperation: "EXCEPT or INTERSECT",
    logical.TopK: "ORDER BY … LIMIT",
    logical.WindowFunctions: "OVER",
    logical.Session: "a session window",
    logical.RowWindow: "a window of ROWS",
    logical.Values: "VALUES",
    logical.ToStream: "Istream, Dstream or Rstream",
    logical.Unnest: "UNNEST",
    logical.GroupBy: "a GROUP BY over a GROUP BY",
    logical.Sync: "a synchronised relation",
    logical.Restamp: "the TS of a view",
}
#: For some of these nodes, why no bound on the error can be guaranteed; `_no_group` is the reason for the others.
_REASONS = {
    logical.RowWindow: "if a row is dropped, another row enters the window in its place",
    logical.Session: "dropping a row could split a session in two",
    logical.Distinct: "it is not known whether a dropped row was a duplicate",
    logical.Join: "a record may join several rows, and these are not dropped independently of each other",
    logical.Unnest: "rows of the same record are not dropped independently of each other",
}
_PRODUCTS = (
    "use a column of the stream, multiplied by columns c of the relation as GREATEST(c, 0) if they are never negative, "
    "and FILTER instead of CASE; or omit MAX_ERROR"
)
#: For some constructs, what to do instead.
_HINTS = {
    "a join": "join a relation on all columns of its key, compared with columns of the same type, or omit MAX_ERROR",
    "SUM over columns of a join": _PRODUCTS,
    "AVG over columns of a join": _PRODUCTS,
    "a window or a sample of a join": "apply it to the stream below the join, or omit MAX_ERROR",
}


def with_shedding(
    node: logical.Node, query: str, *, error_columns: bool, only: OverStream | None = None
) -> logical.Node:
    """The bound plan of a query with a Shed below its group-by. If `error_columns`, each row has its error and the
    confidence.

    Raises UserError, with the SQL construct and the reason, if a bound on the error cannot be guaranteed."""
    return _rewrite_above(node, _Request(query, error_columns, only))[0]


def shed_of(node: logical.Node) -> logical.Shed | None:
    """The Shed of a plan; None if it has none."""
    return next((below for below in walk(node) if isinstance(below, logical.Shed)), None)


def window_length(node: logical.Node) -> int | None:
    """The length, in instants, of the shortest window from which a result is computed; None if it is computed from all
    rows so far.
    """
    shed = shed_of(node)
    assert shed is not None
    for below in walk(shed):
        if isinstance(below, logical.Assign):
            return below.size if below.kind == "hop" else below.slide
        if isinstance(below, logical.TimeWindow) and below.length is not None:
            return below.length + 1
    return None


@dataclass(frozen=True)
class _Request:
    """The query, whether its rows have error columns, and the condition under which a row may be dropped."""

    query: str
    errors: bool
    only: OverStream | None


#: A plan, and the names of those of its columns that are estimates.
_Estimated = tuple[logical.Node, frozenset[str]]


def _rewrite_above(node: logical.Node, request: _Request) -> _Estimated:
    """The plan with its group-by replaced by estimates; the projections above it pass on the error columns."""
    match node:
        case logical.GroupBy():
            return _estimate_groups(node, request), frozenset(aggregate.name for aggregate in node.aggregates)
        case logical.Final():
            below, estimates = _rewrite_above(node.input, request)
            return replace(node, input=below), estimates
        case logical.Filter():
            below, estimates = _rewrite_above(node.input, request)
            if columns(node.predicate) & estimates:
                raise _refused("HAVING", "the condition may be true for the estimate and false for the exact value")
            return replace(node, input=below), estimates
        case logical.Project():
            below, estimates = _rewrite_above(node.input, request)
            more = unchanged(pa.schema([schema(below).field(name) for name in (ERROR, CONFIDENCE) if request.errors]))
            return replace(node, input=below, outputs=(*node.outputs, *more)), _estimates_above(node, estimates)
    if isinstance(node, logical.SemiJoin):
        raise _refused("the right side of a negation" if node.anti else "IN or EXISTS", _no_group())
    raise _refused(construct(node), _REASONS.get(type(node), _no_group()))


def _estimates_above(node: logical.Project, estimates: frozenset[str]) -> frozenset[str]:
    for _, output in node.outputs:
        if not isinstance(output, Column) and columns(output) & estimates:
            raise _refused("an expression over an aggregate", "its error does not follow from that of the aggregate")
    return frozenset(name for name, output in node.outputs if isinstance(output, Column) and output.name in estimates)


def _no_group() -> str:
    return "only COUNT, SUM and AVG over one stream have a known error"


def construct(node: logical.Node) -> str:
    """The SQL construct that became this node, for messages."""
    return _CONSTRUCTS.get(type(node), "a query without an aggregate")


def _refused(what: str, why: str) -> UserError:
    hint = _HINTS.get(what, "omit MAX_ERROR")
    return UserError(f"MAX_ERROR cannot be guaranteed over {what}: {why}", hint=hint)


# --- below the group-by


def _check_below(node: logical.Node, group: logical.GroupBy) -> None:
    match node:
        case logical.StreamScan(promises=(_, *_)):
            why = "whether a record of it is refused depends on other records"
            raise _refused(f'a source with CLUSTERED BY or REFERENCES, "{node.source.name}"', why)
        case logical.StreamScan(keys=()):
            return
        case logical.StreamScan():
            raise _refused("a keyed stream", "if a record is dropped, the old row of its key stays")
        case logical.Assign(kind=kind, size=size, slide=slide) if kind == "cumulate" or size != slide:
            if not any(_is_window_end(group.input, key) for key in group.keys):
                why = "a record is in several windows; group by window_end"
                raise _refused("windows that overlap", why)
        case logical.Filter() | logical.Project() | logical.Sample() | logical.Assign():
            pass
        case logical.TimeWindow() | logical.NowFilter():
            pass
        case logical.Restamp() if append_only(node.input):
            pass
        case _:
            raise _refused_below(node)
    _check_below(node.input, group)


def _refused_below(node: logical.Node) -> UserError:
    if lookup_of(node) is not None:
        return _refused("a window or a sample of a join", "it is not known before the join which rows are in it")
    return _refused(construct(node), _REASONS.get(type(node), _no_group()))


def _is_window_end(node: logical.Node, name: str) -> bool:
    return _window_column(node, name) == "window_end"


def _window_column(node: logical.Node, name: str) -> str | None:
    """The name that a column has in the window that assigns it; None if no window does."""
    if isinstance(node, logical.Assign) and name in ("window_start", "window_end"):
        return name
    below = stream_origin(node, name)
    return None if below is None else _window_column(*below)


# --- the group-by


def _estimate_groups(node: logical.GroupBy, request: _Request) -> logical.Node:
    _check_below(stream_below(node.input), node)
    for aggregate in node.aggregates:
        _check_aggregate(aggregate)
    estimate_inputs = EstimateInputs(schema(node.input), request.errors)
    estimates = [estimate(aggregate, estimate_inputs) for aggregate in node.aggregates]
    below = with_shed(node.input, stream_below(node.input), _shed(node, request))
    prepared = logical.Project(below, (*unchanged(schema(node.input)), *estimate_inputs.columns))
    group = replace(node, input=prepared, aggregates=tuple(estimate_inputs.sums))
    keys = unchanged(pa.schema([schema(node).field(key) for key in node.keys]))
    names = [aggregate.name for aggregate in node.aggregates]
    results = [(name, value) for name, (value, _) in zip(names, estimates, strict=True)]
    if not request.errors:
        return logical.Project(group, (*keys, *results))
    variances = [(f"__variance{at}", variance) for at, (_, variance) in enumerate(estimates)]
    estimated = logical.Project(group, (*keys, *results, *variances))
    return with_errors(estimated, tuple(names), tuple(name for name, _ in variances))


def _shed(node: logical.GroupBy, request: _Request) -> logical.Shed:
    """The Shed of a group-by, over the stream below the lookups."""
    windows = frozenset(key for key in node.keys if _window_column(node.input, key) is not None)
    measured = measures(node, windows, where=request.only is not None)
    for aggregate, why in measured.unknown:
        raise _refused(f"{aggregate.function.upper()} over columns of a join", why)
    source = measured.input if request.only is None else with_carried_column(measured.input, _ONLY, request.only)
    where = None if request.only is None else _ONLY
    return logical.Shed(source, request.query, measured.keys, measured.values, where, merged=measured.merged)


def _check_aggregate(aggregate: Aggregate) -> None:
    if aggregate.distinct:
        raise _refused("DISTINCT in an aggregate", _REASONS[logical.Distinct])
    if ALIASES.get(aggregate.function, aggregate.function) not in SHEDDABLE:
        raise _refused(aggregate.function.upper(), "a single row can determine its value, and that row may be dropped")
