"""Renders plans as text, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsms.model import logical
from dsms.model.labels import label
from dsms.model.properties import inputs, keys
from dsms.planner.optimizer.optimize import rewritten
from dsms.planner.physical.cost.estimate import Statistics
from dsms.planner.physical.cost.load import expected_load
from dsms.planner.physical.dataflow import Routing, Vertex
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane
from dsms.planner.physical.lane import Lane
from operators.constraints.forget import Forget

_EXPLAINED, _NAMED = "explain", 5
_NOTHING_MEASURED = Statistics()


def explain(
    node: logical.Node, queries: Iterable[PlannedQuery] = (), name: str = "", statistics: Statistics = _NOTHING_MEASURED
) -> str:
    """The optimised plan as a tree, the rules applied, the stages in which it runs, the operators that other queries
    already run, and the expected load.

    `queries` are all running queries; `name` names the query to explain if it is one of them. The text also has the
    plan of the family for a member of a family, the plan over other queries for a query computed from these, and the
    plan in the chosen join order for a query that has one.
    """
    running = list(queries)
    itself = next((query for query in running if query.name.lower() == name.lower()), None)
    special = itself if itself is not None and (itself.member or any(itself.hints)) else None
    explained = special or PlannedQuery(_EXPLAINED, _EXPLAINED, node)
    optimized, lane = rewritten(node), compile_lane(_EXPLAINED, [explained])
    plan = [tree(optimized.node), f"rules: {', '.join(optimized.rules) or 'none'}", ""]
    family = ["as a member of a family:", tree(explained.member.node), ""] if explained.member else []
    over = [_over(explained), tree(explained.default_order_plan), ""] if explained.views else []
    if explained.hints.join_orders:
        over.append(f"in a chosen order:\n{tree(explained.optimized)}\n")
    others = [query for query in running if query is not itself]
    together = compile_lane(_EXPLAINED, [explained, *others])
    load = expected_load(together, statistics)
    return "\n".join([*plan, *family, *over, *_stages(lane), *_shared(together), *load])


def _over(query: PlannedQuery) -> str:
    if any(former.merged for former in query.hints.over):
        return "over operators with the columns of several queries:"
    return "computed from queries that contain it:"


def _shared(lane: Lane) -> list[str]:
    """Lines with the operators that the first query shares with others, grouped by the names of the others."""
    by_queries: dict[str, list[str]] = {}
    explained = lane.outputs[0]
    for at in sorted(lane.flow.below[explained.vertex]):
        vertex, names = lane.flow.vertices[at], [output.name for output in lane.by_vertex[at] if output != explained]
        if vertex.operator is not None and names:
            by_queries.setdefault(_listed(names), []).append(vertex.kind)
    return [f"shared with {queries}: {' → '.join(operators)}" for queries, operators in by_queries.items()]


def _listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others.

    >>> _listed(["a", "b"]), _listed([f"q{at}" for at in range(9)])
    ('a, b', 'q0, q1, q2, q3, q4 and 4 more')
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def tree(node: logical.Node) -> str:
    """The logical plan with one line for each node and the key of its relation; inputs are below, indented."""
    return "\n".join(_lines(node, 0))


def _lines(node: logical.Node, depth: int) -> list[str]:
    key = ", ".join(keys(node)) or "none"
    line = f"{'  ' * depth}{label(node)}  [key: {key}]"
    return [line, *(inner for below in inputs(node) for inner in _lines(below, depth + 1))]


def _stages(lane: Lane) -> list[str]:
    """Lines with the operators of each stage and the exchanges before it."""
    flow = lane.flow
    topics = ", ".join(f"{source.format} from topic {source.topic}" for source in lane.sources.values())
    lines = [f"source stage: decode {topics}" + _names(lane, 0)]
    for stage in range(1, flow.stages + 1):
        exchanges = (exchange for exchange in flow.exchanges if exchange.stage == stage and exchange.by != "stay")
        routings = dict.fromkeys(_routing(exchange.by) for exchange in exchanges)
        lines.append(f"exchange: {'; '.join(routings) or 'none'}")
        number = f" {stage}" if flow.stages > 1 else ""
        lines.append(f"target stage{number}: " + _names(lane, stage).removeprefix(" → "))
    return [*lines[:-1], lines[-1] + (" (append-only)" if lane.outputs[0].append_only else " (changes)")]


def _routing(routing: Routing) -> str:
    if isinstance(routing, str):
        return {"source": "by source partition", "all": "to every target"}[routing]
    return f"by hash of ({', '.join(routing)})" if routing else "to target 0"


def _names(lane: Lane, stage: int) -> str:
    vertices = [vertex for vertex in lane.flow.vertices if vertex.stage == stage and vertex.operator]
    return "".join(f" → {vertex.kind}{_forgetting(vertex)}" for vertex in vertices)


def _forgetting(vertex: Vertex) -> str:
    """The columns by which an operator drops state that is no longer needed; "" if it does not drop any."""
    if not isinstance(vertex.operator, Forget):
        return ""
    return f" (forgets by {', '.join(dict.fromkeys(sweep.column for sweep in vertex.operator.sweeps))})"
