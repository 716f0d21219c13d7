"""Plans as text, for EXPLAIN."""

from __future__ import annotations

from dsms.plan import logical
from dsms.plan.dataflow import Routing
from dsms.plan.labels import label
from dsms.plan.lane import Lane
from dsms.plan.optimize import rewritten
from dsms.plan.properties import inputs, keys


def explain(node: logical.Node, lane: Lane) -> str:
    """The optimised plan as a tree, the rules that made it, then how it runs."""
    found = rewritten(node)
    return "\n".join([tree(found.node), f"rules: {', '.join(found.rules) or 'none'}", "", *_stages(lane)])


def tree(node: logical.Node) -> str:
    """The logical plan, a node a line, inputs below and to the right; with the key of each relation."""
    return "\n".join(_lines(node, 0))


def _lines(node: logical.Node, depth: int) -> list[str]:
    key = ", ".join(keys(node)) or "none"
    line = f"{'  ' * depth}{label(node)}  [key: {key}]"
    return [line, *(below for one in inputs(node) for below in _lines(one, depth + 1))]


def _stages(lane: Lane) -> list[str]:
    """Each stage with its operators, and what is exchanged before it."""
    flow = lane.flow
    topics = ", ".join(f"{source.format} from topic {source.topic}" for source in lane.sources)
    lines = [f"source stage: decode {topics}" + _names(lane, 0)]
    for stage in range(1, flow.stages + 1):
        moves = dict.fromkeys(_routing(one.by) for one in flow.exchanges if one.stage == stage and one.by != "stay")
        lines.append(f"exchange: {'; '.join(moves) or 'none'}")
        number = f" {stage}" if flow.stages > 1 else ""
        lines.append(f"target stage{number}: " + _names(lane, stage).removeprefix(" → "))
    return [*lines[:-1], lines[-1] + (" (append-only)" if lane.append_only else " (changes)")]


def _routing(by: Routing) -> str:
    if isinstance(by, str):
        return {"source": "by source partition", "all": "to every target"}[by]
    return f"by hash of ({', '.join(by)})" if by else "to target 0"


def _names(lane: Lane, stage: int) -> str:
    operators = [vertex.operator for vertex in lane.flow.vertices if vertex.stage == stage and vertex.operator]
    return "".join(f" → {type(operator).__name__}" for operator in operators)
