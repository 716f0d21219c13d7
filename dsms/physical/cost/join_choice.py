"""The cheapest orders of a query's joins by what was measured of those that run.

The selectivity of a join that does not run is estimated as usual: of two sides that are compared in a class of equal
columns, the one with fewer different values has none that the other has not, so two rows are equal with one over the
greater number. How many values there are is measured where joins keep them. By how much what was measured of a join
differs from this estimate, as values are not equally frequent or only some occur on both sides, is taken to follow
from the input that it adds.
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
from dsms.optimizer.algebra.join_tree import JoinTree
from dsms.optimizer.join_orders import equal_columns, tops_of_joins
from dsms.physical.builder import Builder
from dsms.physical.cost import characteristics as pipes
from dsms.physical.cost.characteristics import Characteristics
from dsms.physical.cost.estimate import Statistics, estimated
from dsms.physical.cost.flow import Known
from dsms.physical.dataflow import Dataflow
from dsms.physical.fragment_plan import Planned, add_result

#: Of more inputs only the orders that begin with the cheapest pair and always add the cheapest input are compared.
_MOST_COMPARED = 7


class Choice(NamedTuple):
    """Orders of the joins of a query, and the rows an instant that pass through its joins in them and as they are."""

    orders: JoinOrders
    cost: float
    present: float

    @property
    def gain(self) -> float:
        """How many times fewer rows it takes.

        >>> Choice(((1, 0, 2),), 2.0, 6.0).gain
        3.0
        """
        return self.present / self.cost if self.cost else 1.0


def cheapest_orders(query: Planned, statistics: Statistics) -> Choice | None:
    """The cheapest orders of the joins of a query as it runs; None if too little was measured of it, or if there is
    nothing to choose."""
    trees = list(tops_of_joins(query.optimized))
    orders = query.join_orders or tuple(tuple(range(len(tree.leaves))) for _, tree in trees)
    if not trees or [len(order) for order in orders] != [len(tree.leaves) for _, tree in trees]:
        return None
    measured = _Measured.of(query, statistics)
    chosen = [_cheapest(top, tree, measured) for top, tree in trees]
    if None in chosen:
        return None
    found = [best for best in chosen if best is not None]
    places = (tuple(order[at] for at in best.order) for order, best in zip(orders, found, strict=True))
    return Choice(tuple(places), sum(best.cost for best in found), sum(best.present for best in found))


class _Best(NamedTuple):
    order: tuple[int, ...]
    cost: float
    present: float


@dataclass(frozen=True)
class _Measured:
    """What was measured of the nodes of a plan, by fingerprint: their streams, if they have run."""

    streams: Mapping[str, Characteristics]
    #: The different keys on each side of a join.
    keys: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(query: Planned, statistics: Statistics) -> _Measured:
        flow, vertices = _lowered(query)
        expected = estimated(flow, statistics)
        ran = {node: at for node, at in vertices.items() if flow.keys[at] in statistics.vertices}
        streams = {node: found.flow.stream for node, at in ran.items() if (found := expected[at]) is not None}
        return _Measured(streams, {node: _keys(at, flow, statistics) for node, at in ran.items()})

    def stream(self, node: logical.Node) -> Characteristics | None:
        """The stream of a node; None if it has not run."""
        return self.streams.get(fingerprint(node))

    def side_keys(self, node: logical.Node) -> tuple[float, ...]:
        """The different keys on each side of a join, or nothing."""
        return self.keys.get(fingerprint(node), ())


@memoized_by_identity(512)
def _lowered(query: Planned) -> tuple[Dataflow, Mapping[str, int]]:
    """The dataflow of a query, and the vertices of its nodes by their fingerprints."""
    builder = Builder()
    add_result(query, builder)
    return builder.dataflow(), {node: port.vertex for node, port in builder.lowered.items()}


def _keys(at: int, flow: Dataflow, statistics: Statistics) -> tuple[float, ...]:
    """What was measured of the vertex of a join, above which there may be those of its conditions."""
    while flow.vertices[at].inputs and not (known := statistics.vertices.get(flow.keys[at], Known())).keys:
        at = flow.vertices[at].inputs[0].vertex
    return known.keys if flow.vertices[at].inputs else ()


@dataclass(frozen=True)
class _Joined:
    """A part of a tree that is joined: its inputs by number, their stream, the values that each class of equal columns
    can have in it, and the rows that passed through its joins."""

    inputs: tuple[int, ...]
    stream: Characteristics
    values: Mapping[int, float]
    cost: float = 0.0


@dataclass
class _Tree:
    """A tree with the streams of its inputs, the number of values of each class of equal columns in each input, and by
    how much more or fewer pairs an input has than these let expect."""

    streams: list[Characteristics]
    classes: list[frozenset[str]]
    names: list[frozenset[str]]
    values: list[dict[int, float]]
    factors: dict[int, float] = field(default_factory=dict)

    def classes_of(self, at: int) -> set[int]:
        """The classes with columns of an input."""
        return {number for number, class_ in enumerate(self.classes) if not class_.isdisjoint(self.names[at])}

    def leaf(self, at: int) -> _Joined:
        """An input alone."""
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
        """One over the greater numbers of values, times the factor of the inputs that are added."""
        expected = math.prod(1 / max(left.values[number], right.values[number]) for number in common)
        added = [self.factors.get(side.inputs[0], 1.0) for side in (left, right) if len(side.inputs) == 1]
        return min(expected * math.prod(added) ** (1 / max(len(added), 1)), 1.0)


#: How a tree is joined: an input, or two parts.
_Shape = int | tuple["_Shape", "_Shape"]


def _cheapest(top: logical.Node, tree: JoinTree, measured: _Measured) -> _Best | None:
    """The cheapest order of a tree's inputs by number; None if it is not known."""
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
    present = _as_it_is(shape, estimate)
    best = min(_orders(estimate), key=lambda part: part.cost, default=None)
    if present is None or best is None:
        return None
    same = best.cost >= present.cost
    order = tuple(range(len(names))) if same else best.inputs
    return _Best(order, present.cost if same else best.cost, present.cost)


def _observed(node: logical.Node, places: Mapping[int, int], tree: _Tree, measured: _Measured) -> _Shape | None:
    """How a node is joined; notes what follows from its measured joins for the values of its inputs."""
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
        _note([list(_numbers(left)), list(_numbers(right))], counts, factor, tree)
    return left, right


def _note(sides: list[list[int]], counts: list[float], factor: float, tree: _Tree) -> None:
    """Notes the values of the inputs on each side of a measured join, and the factor of those that are a side alone."""
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
    """How many values there are, of which a stream has so many at an instant."""
    return pipes.distinct_rows(max(stream.alive, keys), keys) if keys >= 1 else 1.0


def _classes(numbers: Sequence[int], tree: _Tree) -> set[int]:
    return set[int]().union(*(tree.classes_of(at) for at in numbers))


def _numbers(shape: _Shape) -> Iterator[int]:
    if isinstance(shape, int):
        yield shape
    else:
        yield from (number for part in shape for number in _numbers(part))


def _as_it_is(shape: _Shape, tree: _Tree) -> _Joined | None:
    if isinstance(shape, int):
        return tree.leaf(shape)
    left, right = (_as_it_is(part, tree) for part in shape)
    return tree.joined(left, right) if left is not None and right is not None else None


def _orders(tree: _Tree) -> Iterator[_Joined]:
    """The inputs joined one after the other, in all orders in which a class of columns connects each with those before
    it, or in the cheapest ones."""
    leaves = [tree.leaf(at) for at in range(len(tree.streams))]
    parts = [pair for at, leaf in enumerate(leaves) for other in leaves[at + 1 :] if (pair := tree.joined(leaf, other))]
    if len(leaves) > _MOST_COMPARED:
        parts = [min(parts, key=lambda part: part.cost)] if parts else []
    for _ in range(len(leaves) - 2):
        more = [
            longer
            for part in parts
            for leaf in leaves
            if leaf.inputs[0] not in part.inputs and (longer := tree.joined(part, leaf))
        ]
        parts = _kept(more, several=len(leaves) <= _MOST_COMPARED)
    yield from parts


def _kept(parts: list[_Joined], *, several: bool) -> list[_Joined]:
    """Of the parts with the same inputs the cheapest: the streams of the others are about the same. Or the cheapest of
    all."""
    cheapest: dict[frozenset[int], _Joined] = {}
    for part in sorted(parts, key=lambda part: part.cost):
        cheapest.setdefault(frozenset(part.inputs), part)
    return list(cheapest.values()) if several else list(cheapest.values())[:1]
