"""Properties of a plan that hold at every instant: the key of its relation, whether it is append-only, its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch

from dsms.model import logical
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import Source
from dsms.model.schema import schema
from operators.core.operator import MEMBER
from operators.expressions import Column
from operators.sync.sync_points import Periodic


def inputs(node: logical.Node) -> tuple[logical.Node, ...]:
    """The direct inputs of a node."""
    if isinstance(node, logical.StreamScan | logical.Values | logical.Recurrence):
        return ()
    if isinstance(node, logical.Union | logical.Recursion):
        return node.inputs
    if isinstance(node, logical.Join | logical.SemiJoin | logical.SetOperation | logical.AsofJoin):
        return (node.left, node.right)
    if isinstance(node, logical.Sync) and not isinstance(node.points, Periodic):
        return (node.input, node.points)
    return (node.input,)


def walk(node: logical.Node, enters: Callable[[logical.Node], bool] = lambda node: True) -> Iterator[logical.Node]:
    """A node and all nodes below it, parents first, without those below a node for which `enters` is False."""
    waiting = [node]
    while waiting:
        above = waiting.pop()
        yield above
        if enters(above):
            waiting.extend(reversed(inputs(above)))


def synchronised(node: logical.Node) -> bool:
    """Whether a plan contains a Sync node. Then many of its rows change at the same instant."""
    return any(isinstance(below, logical.Sync) for below in walk(node))


def sources(node: logical.Node) -> tuple[Source, ...]:
    """The sources that a plan reads, each once, in the order in which the text names them."""
    return tuple({scan.source.id: scan.source for scan in scans(node)}.values())


def scans(node: logical.Node) -> Iterator[logical.StreamScan]:
    """The scans of a plan, including scans of the sources that its records reference."""
    return (scan for below in walk(node) if isinstance(below, logical.StreamScan) for scan in _referenced(below))


def _referenced(scan: logical.StreamScan) -> Iterator[logical.StreamScan]:
    """A scan, and the scans of the sources that its records reference, recursively."""
    yield scan
    for promise in scan.promises:
        if isinstance(promise, logical.Reference):
            yield from _referenced(promise.other)


@memoized_by_identity(1 << 14)
def keys(node: logical.Node) -> tuple[str, ...]:
    """The columns of a key that the relation has at every instant; () if no key is known."""
    return _keys(node)


@singledispatch
def _keys(node: logical.Node) -> tuple[str, ...]:
    return ()


@_keys.register
def _(node: logical.StreamScan) -> tuple[str, ...]:
    return () if node.bag else node.keys


@_keys.register(logical.Filter)
@_keys.register(logical.Restamp)
@_keys.register(logical.Sample)
@_keys.register(logical.Shed)
@_keys.register(logical.NowFilter)
@_keys.register(logical.Sync)
@_keys.register(logical.WindowFunctions)
@_keys.register(logical.Session)
@_keys.register(logical.Final)
def _(node: logical.Filter) -> tuple[str, ...]:
    return keys(node.input)


@_keys.register
def _(node: logical.Project) -> tuple[str, ...]:
    """A key survives a projection that keeps each of its columns, under any name."""
    renamed: dict[str, str] = {}
    for name, output in node.outputs:
        if isinstance(output, Column):
            renamed.setdefault(output.name, name)
    below = keys(node.input)
    return tuple(renamed[key] for key in below) if all(key in renamed for key in below) else ()


@_keys.register
def _(node: logical.GroupBy) -> tuple[str, ...]:
    return node.keys


@_keys.register
def _(node: logical.RowWindow) -> tuple[str, ...]:
    """The columns of the partition, if one row of each partition is kept."""
    return node.partition if node.rows == 1 else ()


@_keys.register
def _(node: logical.Members) -> tuple[str, ...]:
    below = keys(node.input)
    return (*below, MEMBER) if below and not node.known else below


@_keys.register
def _(node: logical.Assign) -> tuple[str, ...]:
    below = keys(node.input)
    return (*below, "window_start", "window_end") if below else ()


@_keys.register
def _(node: logical.Apply) -> tuple[str, ...]:
    return node.function.keys(keys(node.input))


@_keys.register
def _(node: logical.Distinct) -> tuple[str, ...]:
    return keys(node.input) or tuple(schema(node).names)


@_keys.register
def _(node: logical.Recursion) -> tuple[str, ...]:
    """All columns, because a recursive relation is a set."""
    return tuple(schema(node).names)


@_keys.register(logical.SemiJoin)
@_keys.register(logical.AsofJoin)
def _(node: logical.SemiJoin | logical.AsofJoin) -> tuple[str, ...]:
    """Each row of the left input occurs at most once in the result, so its key remains one."""
    return keys(node.left)


@_keys.register
def _(node: logical.SetOperation) -> tuple[str, ...]:
    return keys(node.left)


@_keys.register
def _(node: logical.TopK) -> tuple[str, ...]:
    """Partition and row number together are a key; if one row of each partition is kept, the partition alone is one."""
    if node.method == "row_number" and node.limit == 1:
        return node.partition
    below = keys(node.input)
    if below or node.rank is None or node.method != "row_number":
        return below
    return (*node.partition, node.rank)


@_keys.register
def _(node: logical.Join) -> tuple[str, ...]:
    """The keys of both sides together; the key of one side alone if the join columns contain the other side's key."""
    if node.outer == "full":
        return ()
    left, right = keys(node.left), keys(node.right)
    if not left or not right:
        return ()
    if node.outer != "right" and set(right) <= {right_key for _, right_key in node.on}:
        return left
    if node.outer != "left" and set(left) <= {left_key for left_key, _ in node.on}:
        return right
    return (*left, *right)


@memoized_by_identity(1 << 14)
def append_only(node: logical.Node) -> bool:
    """Whether the relation is monotonic (CQL section 4): its rows are never retracted."""
    match node:
        case logical.StreamScan():
            return not node.keys
        case logical.ToStream() | logical.Values() | logical.Final():
            return True
        case (
            logical.Filter()
            | logical.Project()
            | logical.Unnest()
            | logical.Assign()
            | logical.Restamp()
            | logical.Sample()
            | logical.Shed()
            | logical.Members()
            | logical.Distinct()
            | logical.Sync()
        ):
            return append_only(node.input)
        case logical.TimeWindow():
            return node.length is None and node.slide == 1 and append_only(node.input)
        case logical.Apply():
            return node.function.append_only and append_only(node.input)
        case logical.Union() | logical.Recursion():
            return all(append_only(branch) for branch in node.inputs)
        case logical.Join():
            return node.outer == "none" and append_only(node.left) and append_only(node.right)
        case logical.SemiJoin():
            return not node.anti and append_only(node.left) and append_only(node.right)
        case _:
            return False
