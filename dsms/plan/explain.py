"""Plans as text, for EXPLAIN."""

from __future__ import annotations

from functools import singledispatch

from dsms.plan import logical
from dsms.plan.lane import Lane
from operators.expressions import to_sql


def explain(node: logical.Node, lane: Lane) -> str:
    """The logical plan as a tree, then how it runs."""
    return "\n".join([*_tree(node, 0), "", *_stages(lane)])


def _tree(node: logical.Node, depth: int) -> list[str]:
    key = ", ".join(logical.keys(node)) or "none"
    line = f"{'  ' * depth}{_label(node)}  [key: {key}]"
    return [line] if isinstance(node, logical.Tag) else [line, *_tree(node.input, depth + 1)]


def _stages(lane: Lane) -> list[str]:
    exchange = f"by hash of ({', '.join(lane.exchange)})" if lane.exchange else "by source partition"
    form = "append-only" if lane.output.append_only else "changes"
    return [
        f"source stage: decode {lane.source.format} from topic {lane.source.topic}" + _names(lane.before),
        f"exchange: {exchange}",
        "target stage: " + _names((*lane.after, lane.output)).removeprefix(" → ") + f" ({form})",
    ]


def _names(operators: tuple[object, ...]) -> str:
    return "".join(f" → {type(operator).__name__}" for operator in operators)


@singledispatch
def _label(node: logical.Node) -> str:
    raise TypeError(node)


@_label.register
def _(node: logical.Tag) -> str:
    return f"ℜ({node.stream}) over source {node.source.name}"


@_label.register
def _(node: logical.Filter) -> str:
    return f"Filter {to_sql(node.predicate)}"


@_label.register
def _(node: logical.Project) -> str:
    return "Project " + ", ".join(_output(name, to_sql(output)) for name, output in node.outputs)


@_label.register
def _(node: logical.Restamp) -> str:
    return f"ℜ({node.view}) with TS"


def _output(name: str, text: str) -> str:
    return name if text.strip('"') == name else f"{text} AS {name}"
