"""Plans as text, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsms.model import logical
from dsms.model.labels import label
from dsms.model.properties import inputs, keys
from dsms.optimizer.optimize import rewritten
from dsms.physical.dataflow import Routing, Vertex
from dsms.physical.fragment_plan import Planned, compile_lane
from dsms.physical.lane import Lane
from operators.constraints.forget import Forget

_ASKED, _NAMED = "explain", 5


def explain(node: logical.Node, queries: Iterable[Planned] = (), name: str = "") -> str:
    """The optimised plan as a tree, the rules that made it, how it runs, and what of it other queries run already.

    `queries` are all that run; `name` is the one that is asked about, if it is one of them. What runs as a member of a
    family is shown as the family's plan, what is answered over other queries also as the plan over these.
    """
    running = list(queries)
    itself = next((one for one in running if one.name.lower() == name.lower()), None)
    special = itself if itself is not None and (itself.member or itself.views) else None
    asked = special or Planned(_ASKED, _ASKED, node)
    found, lane = rewritten(node), compile_lane(_ASKED, [asked])
    plan = [tree(found.node), f"rules: {', '.join(found.rules) or 'none'}", ""]
    family = ["as a member of a family:", tree(asked.member.node), ""] if asked.member else []
    over = ["over queries that contain it:", tree(asked.optimized), ""] if asked.views else []
    shared = _shared(compile_lane(_ASKED, [asked, *(one for one in running if one is not itself)]))
    return "\n".join([*plan, *family, *over, *_stages(lane), *shared])


def _shared(lane: Lane) -> list[str]:
    """The operators that stand below other queries too, by the queries."""
    by_queries: dict[str, list[str]] = {}
    asked = lane.outputs[0]
    for at in sorted(lane.flow.below[asked.vertex]):
        vertex, names = lane.flow.vertices[at], [one.name for one in lane.by_vertex[at] if one != asked]
        if vertex.operator is not None and names:
            by_queries.setdefault(_listed(names), []).append(vertex.kind)
    return [f"shared with {queries}: {' → '.join(operators)}" for queries, operators in by_queries.items()]


def _listed(names: Sequence[str]) -> str:
    """A few names, and how many more.

    >>> _listed(["a", "b"]), _listed([f"q{at}" for at in range(9)])
    ('a, b', 'q0, q1, q2, q3, q4 and 4 more')
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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
    topics = ", ".join(f"{source.format} from topic {source.topic}" for source in lane.sources.values())
    lines = [f"source stage: decode {topics}" + _names(lane, 0)]
    for stage in range(1, flow.stages + 1):
        moves = dict.fromkeys(_routing(one.by) for one in flow.exchanges if one.stage == stage and one.by != "stay")
        lines.append(f"exchange: {'; '.join(moves) or 'none'}")
        number = f" {stage}" if flow.stages > 1 else ""
        lines.append(f"target stage{number}: " + _names(lane, stage).removeprefix(" → "))
    return [*lines[:-1], lines[-1] + (" (append-only)" if lane.outputs[0].append_only else " (changes)")]


def _routing(by: Routing) -> str:
    if isinstance(by, str):
        return {"source": "by source partition", "all": "to every target"}[by]
    return f"by hash of ({', '.join(by)})" if by else "to target 0"


def _names(lane: Lane, stage: int) -> str:
    vertices = [vertex for vertex in lane.flow.vertices if vertex.stage == stage and vertex.operator]
    return "".join(f" → {vertex.kind}{_forgetting(vertex)}" for vertex in vertices)


def _forgetting(vertex: Vertex) -> str:
    """By which columns its state forgets."""
    if not isinstance(vertex.operator, Forget):
        return ""
    return f" (forgets by {', '.join(dict.fromkeys(sweep.column for sweep in vertex.operator.sweeps))})"
