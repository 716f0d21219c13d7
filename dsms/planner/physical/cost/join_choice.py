"""Chooses the cheapest orders for the joins of a query, from measurements of its running joins.

The selectivity of a join that does not run is estimated by the usual containment assumption. It says that all values of
the side with fewer distinct values also occur on the other side. So two rows match with probability 1 / (the greater
number of distinct values). The numbers of distinct values are measured in the state of joins. A measured join may have
more or fewer pairs than this estimate, because values are not equally frequent, or only some occur on both sides. This
deviation is attributed to the input that the join adds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import JoinOrders
from dsms.model.properties import inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.join_tree import JoinTree
from dsms.planner.optimizer.join_orders import equal_columns, tops_of_joins
from dsms.planner.physical.builder import Builder
from dsms.planner.physical.cost import characteristics as pipes
from dsms.planner.physical.cost.characteristics import Characteristics
from dsms.planner.physical.cost.estimate import Statistics, estimated
from dsms.planner.physical.cost.flow import VertexMeasurements
from dsms.planner.physical.dataflow import Dataflow
from dsms.planner.physical.fragment_plan import PlannedQuery, add_result

#: Up to this number of inputs all orders are compared. With more inputs the order is greedy: it begins with the
#: cheapest pair and always adds the cheapest input.
_MAX_COMPARED = 7


class Choice(NamedTuple):
    """Orders of the joins of a query, and the rows per instant that pass through its joins in these orders (`cost`) and
    in the current orders (`current_cost`).
    """

    orders: JoinOrders
    cost: float
    current_cost: float

    @property
    def gain(self) -> float:
        """The factor by which these orders reduce the rows.

        >>> Choice(((1, 0, 2),), 2.0, 6.0).gain
        3.0
        """
        return self.current_cost / self.cost if self.cost else 1.0


def cheapest_orders(query: PlannedQuery, statistics: Statistics) -> Choice | None:
    """The cheapest orders of the joins of a running query; None if too little was measured, or if it has no joins that
    can be reordered."""
    trees = list(tops_of_joins(query.optimized))
    orders = query.hints.join_orders or tuple(tuple(range(len(tree.leaves))) for _, tree in trees)
    if not trees or [len(order) for order in orders] != [len(tree.leaves) for _, tree in trees]:
        return None
    measured = _Measured.of(query, statistics)
    chosen = [_cheapest(top, tree, measured) for top, tree in trees]
    if None in chosen:
        return None
    found = [best for best in chosen if best is not None]
    places = (tuple(order[at] for at in best.order) for order, best in zip(orders, found, strict=True))
    return Choice(tuple(places), sum(best.cost for best in found), sum(best.current_cost for best in found))


class _Best(NamedTuple):
    order: tuple[int, ...]
    cost: float
    current_cost: float


@dataclass(frozen=True)
class _Measured:
    """Measurements of the running nodes of a plan, by their fingerprints."""

    streams: Mapping[str, Characteristics]
    #: The number of distinct keys on each side of a join.
    keys: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(query: PlannedQuery, statistics: Statistics) -> _Measured:
        flow, vertices = _lowered(query)
        expected = estimated(flow, statistics)
        ran = {node: at for node, at in vertices.items() if flow.keys[at] in statistics.vertices}
        streams = {node: found.flow.stream for node, at in ran.items() if (found := expected[at]) is not None}
        return _Measured(streams, {node: _keys(at, flow, statistics) for node, at in ran.items()})

    def stream(self, node: logical.Node) -> Characteristics | None:
        """The stream of a node; None if it has not run."""
        return self.streams.get(fingerprint(node))

    def side_keys(self, node: logical.Node) -> tuple[float, ...]:
        """The number of distinct keys on each side of a join; () if it was not measured."""
        return self.keys.get(fingerprint(node), ())


@memoized_by_identity(512)
def _lowered(query: PlannedQuery) -> tuple[Dataflow, Mapping[str, int]]:
    """The dataflow of a query, and the vertices of its nodes by their fingerprints."""
    builder = Builder()
    add_result(query, builder)
    return builder.dataflow(), {node: port.vertex for node, port in builder.lowered.items()}


def _keys(at: int, flow: Dataflow, statistics: Statistics) -> tuple[float, ...]:
    """The measured keys of a join. `at` is the vertex of the join or of a condition above it."""
    while flow.vertices[at].inputs and not (known := statistics.vertices.get(flow.keys[at], VertexMeasurements())).keys:
        at = flow.vertices[at].inputs[0].vertex
    return known.keys if flow.vertices[at].inputs else ()


@dataclass(frozen=True)
class _Joined:
    """The join of some inputs of a tree: the inputs by number, the joined stream, the number of values of each class of
    equal columns in it, and the rows per instant that pass through its joins."""

    inputs: tuple[int, ...]
    stream: Characteristics
    values: Mapping[int, float]
    cost: float = 0.0


@dataclass
class _Tree:
    """A tree of joins: the streams of its inputs; for each input, the number of values of each class of equal columns;
    and for each input, the ratio of measured pairs to the pairs that these numbers predict.
    """

    streams: list[Characteristics]
    classes: list[frozenset[str]]
    names: list[frozenset[str]]
    values: list[dict[int, float]]
    factors: dict[int, float] = field(default_factory=dict)

    def classes_of(self, at: int) -> set[int]:
        """The classes that contain columns of an input, by number."""
        return {number for number, class_ in enumerate(self.classes) if not class_.isdisjoint(self.names[at])}

    def leaf(self, at: int) -> _Joined:
        """A single input."""
        return _Joined((at,), self.streams[at], {number: self.values[at][number] for number in self.classes_of(at)})

    def joined(self, left: _Joined, right: _Joined) -> _Joined | None:
        """Two parts joined; None if no class of columns connects them."""
        common = left.values.keys() & right.values
        if not common:
            return None
        stream = pipes.joined(left.stream, right.stream, self._selectivity(left, right, common))
        values = {
            number: min(side.values[number] for side in (left, right) if number in side.values)
            for number in left.values.keys() | right.values
        }
        rows = left.stream.rate + right.stream.rate + stream.rate
        return _Joined((*left.inputs, *right.inputs), stream, values, left.cost + right.cost + rows)

    def _selectivity(self, left: _Joined, right: _Joined, common: Collection[int]) -> float:
        """The product of 1 / (greater number of values) over the common classes, times the factor of the added
        inputs."""
        expected = math.prod(1 / max(left.values[number], right.values[number]) for number in common)
        added = [self.factors.get(side.inputs[0], 1.0) for side in (left, right) if len(side.inputs) == 1]
        return min(expected * math.prod(added) ** (1 / max(len(added), 1)), 1.0)


#: The shape in which a tree is joined: an input by number, or a pair of shapes.
_Shape = int | tuple["_Shape", "_Shape"]


def _cheapest(top: logical.Node, tree: JoinTree, measured: _Measured) -> _Best | None:
    """The cheapest order of a tree's inputs, by number; None if too little was measured."""
    streams = [measured.stream(leaf) for leaf in tree.leaves]
    known = [stream for stream in streams if stream is not None]
    if len(known) < len(streams):
        return None
    names = [frozenset(schema(leaf).names) for leaf in tree.leaves]
    estimate = _Tree(known, equal_columns(tree), names, [{} for _ in names])
    places = {id(leaf): at for at, leaf in enumerate(tree.leaves)}
    shape = _observed(top, places, estimate, measured)
    if shape is None or any(estimate.values[at].keys() != estimate.classes_of(at) for at in range(len(names))):
        return None
    in_current_order = _in_current_order(shape, estimate)
    best = min(_orders(estimate), key=lambda part: part.cost, default=None)
    if in_current_order is None or best is None:
        return None
    same = best.cost >= in_current_order.cost
    order = tuple(range(len(names))) if same else best.inputs
    return _Best(order, in_current_order.cost if same else best.cost, in_current_order.cost)


def _observed(node: logical.Node, places: Mapping[int, int], tree: _Tree, measured: _Measured) -> _Shape | None:
    """The shape of a node; None if too little was measured. Stores the numbers of values and the factors that follow
    from its measured joins in `tree`.
    """
    if id(node) in places:
        return places[id(node)]
    below = inputs(node)
    if not isinstance(node, logical.Join):
        return _observed(below[0], places, tree, measured)
    left, right = (_observed(side, places, tree, measured) for side in below)
    streams = [measured.stream(each) for each in (node, *below)]
    if left is None or right is None or None in streams:
        return None
    out, first, second = (stream for stream in streams if stream is not None)
    if len(held := measured.side_keys(node)) == len(below):
        counts = [_values(keys, stream) for keys, stream in zip(held, (first, second), strict=True)]
        factor = out.rate / pipes.joined(first, second).rate * max(counts)
        _store_measurements([list(_numbers(left)), list(_numbers(right))], counts, factor, tree)
    return left, right


def _store_measurements(sides: list[list[int]], counts: list[float], factor: float, tree: _Tree) -> None:
    """Stores the numbers of values of the inputs on each side of a measured join, and the factor of a side that is a
    single input.
    """
    common = _classes(sides[0], tree) & _classes(sides[1], tree)
    if not common:
        return
    for numbers, count in zip(sides, counts, strict=True):
        for at in numbers:
            for number in tree.classes_of(at) & common:
                tree.values[at].setdefault(number, count ** (1 / len(common)))
        if len(numbers) == 1:
            tree.factors.setdefault(numbers[0], factor)


def _values(keys: float, stream: Characteristics) -> float:
    """The number of distinct values of a stream in which `keys` distinct values occur at an instant."""
    return pipes.distinct_rows(max(stream.alive, keys), keys) if keys >= 1 else 1.0


def _classes(numbers: Sequence[int], tree: _Tree) -> set[int]:
    return set[int]().union(*(tree.classes_of(at) for at in numbers))


def _numbers(shape: _Shape) -> Iterator[int]:
    if isinstance(shape, int):
        yield shape
    else:
        yield from (number for part in shape for number in _numbers(part))


def _in_current_order(shape: _Shape, tree: _Tree) -> _Joined | None:
    if isinstance(shape, int):
        return tree.leaf(shape)
    left, right = (_in_current_order(part, tree) for part in shape)
    return tree.joined(left, right) if left is not None and right is not None else None


def _orders(tree: _Tree) -> Iterator[_Joined]:
    """The joins of all inputs in different orders, in which a class of columns connects each input with those before
    it. For many inputs, only a greedy order is tried.
    """
    leaves = [tree.leaf(at) for at in range(len(tree.streams))]
    parts = [pair for at, leaf in enumerate(leaves) for other in leaves[at + 1 :] if (pair := tree.joined(leaf, other))]
    if len(leaves) > _MAX_COMPARED:
        parts = [min(parts, key=lambda part: part.cost)] if parts else []
    for _ in range(len(leaves) - 2):
        more = [
            longer
            for part in parts
            for leaf in leaves
            if leaf.inputs[0] not in part.inputs and (longer := tree.joined(part, leaf))
        ]
        parts = _kept(more, several=len(leaves) <= _MAX_COMPARED)
    yield from parts


def _kept(parts: list[_Joined], *, several: bool) -> list[_Joined]:
    """The cheapest part for each set of inputs; or, unless `several`, only the cheapest of all. (Parts with the same
    inputs have about the same stream.)
    """
    cheapest: dict[frozenset[int], _Joined] = {}
    for part in sorted(parts, key=lambda part: part.cost):
        cheapest.setdefault(frozenset(part.inputs), part)
    return list(cheapest.values()) if several else list(cheapest.values())[:1]
