"""Recursion: the least relations that contain all rows that their rules derive (WITH RECURSIVE)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta, polars_schema
from operators.core.errors import UserError
from operators.core.operator import FAULT_ROW, Move, Step
from operators.expressions import Column
from operators.kernels.canonical_zero import canonical_zeros
from operators.recursion import joining
from operators.recursion.derivations import LAYER, Derivations
from operators.recursion.joining import JoinSide, in_order, net, pairs, refuse_too_many
from operators.recursion.term import Given, Leaf, Paired, Projected, Recurred, Rule, Selected, Term, joins, kept_keys
from operators.relational.filter import Filter
from operators.relational.project import Project
from operators.state.trace import Trace

_LAYER = (LAYER, Column(LAYER, pa.int64(), nullable=False))
#: Matches the layer in the text of a row in fault, to remove it, because users do not know layers.
_LAYER_SHOWN = f',?"{LAYER}":[0-9]+'
#: The layer of the changes of given relations, below all others.
_GIVEN = -1
#: Changes by layer, then by the number of their relation or join.
_Frames = dict[int, dict[int, list[pl.DataFrame]]]


@dataclass(frozen=True, slots=True)
class Recursion:
    """The relation `output`, one of several relations that rules define: at every instant, each is the least set that
    contains the rows that its rules derive. `relations` are their schemas. Inputs and output are changes (elements that
    end by a retraction); the output is a set.

    The cost of a change depends on the rows derived with it, not on the size of the state: derivations are counted at
    each layer (iteration), and a step follows the changes from layer to layer. The idea of ordering changes by pairs of
    an instant and an iteration is from F. McSherry et al., Differential dataflow, CIDR 2013, section 3. A step raises
    UserError if a row is derived at a layer above `limit`, because the recursion may never end, or if too many rows are
    derived at once.

    State: the number of derivations of each row at each layer, and both sides of each join of the rules.

    >>> from operators.recursion.term import Paired
    >>> def named(**of):
    ...     return tuple((name, Column(old, pa.int64(), nullable=False)) for name, old in of.items())
    >>> step = Projected(Paired(Recurred(0), Given(0), ("b",), ("c",)), named(a="a", b="d"))
    >>> edges = named(a="c", b="d")
    >>> columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    >>> paths = Recursion("paths", (columns,), (Rule(0, Projected(Given(0), edges)), Rule(0, step)), 0)
    >>> changes = Delta.of([("+", {"c": 1, "d": 2}, 3), ("+", {"c": 2, "d": 1}, 4), ("-", {"c": 1, "d": 2}, 5)])
    >>> found = paths.step(changes, paths.traces(), Move(0, 9)).delta
    >>> [sorted(found.snapshot(at).rows()) for at in (3, 4, 5)]
    [[(1, 2)], [(1, 1), (1, 2), (2, 1), (2, 2)], [(2, 1)]]
    """

    operator_version: ClassVar[int] = 2
    name: str = field(compare=False)
    relations: tuple[pa.Schema, ...]
    rules: tuple[Rule, ...]
    output: int
    limit: int = 1_000

    def traces(self) -> tuple[Trace, ...]:
        """Returns the empty traces: the derivations of each relation by row, then the sides of the joins by key."""
        return (
            *(Trace("key", tuple(columns.names)) for columns in self.relations),
            *(Trace("key", keys) for keys in kept_keys(self.rules)),
        )

    def step(self, *arguments: Any) -> Step:
        """Returns the rows that enter or leave. The arguments are the inputs' changes, then the traces and the move."""
        *inputs, traces, move = arguments
        return _Following(self, _Instants.of(inputs), list(traces), move).step(inputs)


@dataclass(frozen=True)
class _Instants:
    """The instants of a step, ascending, and the greatest order of the changes at each."""

    at: np.ndarray
    orders: np.ndarray

    @staticmethod
    def of(inputs: Sequence[Delta]) -> _Instants:
        changes = pl.concat([delta.frame.select(FROM, ORDER) for delta in inputs])
        greatest = changes.group_by(FROM).agg(pl.col(ORDER).max()).sort(FROM)
        return _Instants(greatest[FROM].to_numpy(), greatest[ORDER].to_numpy())

    def ordered(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Returns the changes with the greatest order of their instant, which does not depend on how time is cut into
        steps."""
        orders = self.orders[np.searchsorted(self.at, changes[FROM].to_numpy())]
        return changes.with_columns(pl.Series(ORDER, orders))


class _Following:
    """One step: follows changes from the inputs up, then from layer to layer. The changes of a term at a layer are
    complete, and those that cancel out are removed, before anything is computed from them. So neither the results nor
    the rows in fault depend on how time is cut into steps."""

    def __init__(self, recursion: Recursion, instants: _Instants, traces: list[Trace], move: Move) -> None:
        relations = len(recursion.relations)
        self._recursion, self._instants, self._move = recursion, instants, move
        counts = [sum(1 for _ in joins(rule.term)) for rule in recursion.rules]
        self._first_joins = list(accumulate(counts, initial=0))
        self._derivations = [Derivations(trace, move.start) for trace in traces[:relations]]
        self._sides = traces[relations:]
        #: The changes of the relations at the current layer.
        self._changed: dict[Leaf, pl.DataFrame] = {}
        #: Derived rows by layer and relation, and pairs by layer and join, until their layer is reached.
        self._derived: _Frames = defaultdict(lambda: defaultdict(list))
        self._paired: _Frames = defaultdict(lambda: defaultdict(list))
        self._found: list[pl.DataFrame] = []
        self._faults: list[pl.DataFrame] = []

    def step(self, inputs: Sequence[Delta]) -> Step:
        """Returns the changes of the output, and the traces after the step."""
        given = ((Given(number), delta) for number, delta in enumerate(inputs) if len(delta))
        self._changed = {leaf: self._instants.ordered(net(delta.frame)) for leaf, delta in given}
        layer: int | None = _GIVEN
        self._follow(_GIVEN)
        while (layer := self._next(cast(int, layer))) is not None:
            self._reach(layer)
        kept = (derivations.kept(self._move.end, self._instants.ordered) for derivations in self._derivations)
        return Step(self._output(), (*kept, *self._sides), self._reported())

    def _next(self, layer: int) -> int | None:
        """Returns the next layer at which something may change; None if there is none."""
        above = (derivations.above(layer) for derivations in self._derivations)
        return min((*self._derived, *self._paired, *(at for at in above if at is not None)), default=None)

    def _reach(self, layer: int) -> None:
        """Computes and follows the changes at a layer; all derivations at this layer must be known."""
        if layer > self._recursion.limit:
            raise UserError(
                f"WITH RECURSIVE {self._recursion.name} has not ended after {self._recursion.limit:,} iterations",
                hint="limit it by a condition, such as WHERE depth < 100, or do not compute new values in it",
            )
        for head, derived in self._derived.pop(layer, {}).items():
            self._derivations[head].add(pl.concat(derived))
        self._changed = {}
        for head, derivations in enumerate(self._derivations):
            if (changed := derivations.changes(layer)) is not None:
                self._changed[Recurred(head)] = self._instants.ordered(changed)
                if head == self._recursion.output:
                    self._found.append(changed)
        self._follow(layer)

    def _follow(self, layer: int) -> None:
        """Derives rows of the next layer from the changes at a layer."""
        for rule, first in zip(self._recursion.rules, self._first_joins, strict=False):
            derived = self._changes(rule.term, first, layer)
            if derived is not None and derived.height:
                rows = _as_kept(derived, self._recursion.relations[rule.head], layer + 1)
                self._derived[layer + 1][rule.head].append(rows)
        self._paired.pop(layer, None)

    def _changes(self, term: Term, join: int, layer: int) -> pl.DataFrame | None:
        """Returns the changes of a term at a layer, None if there are none; `join` is the number of its first join."""
        match term:
            case Given() | Recurred():
                return self._changed.get(term)
            case Selected():
                return self._stateless(Filter(term.predicate), self._changes(term.term, join, layer))
            case Projected():
                below = self._changes(term.term, join, layer)
                kept = [_LAYER] if below is not None and LAYER in below.columns else []
                return self._stateless(Project((*term.outputs, *kept)), below)
            case Paired():
                return self._pairs(term, join, layer)

    def _stateless(self, operator: Filter | Project, changes: pl.DataFrame | None) -> pl.DataFrame | None:
        if changes is None or not changes.height:
            return None
        step = operator.step(Delta(changes), (), self._move)
        if step.faults is not None:
            self._faults.append(step.faults.with_columns(pl.col(FAULT_ROW).str.replace(_LAYER_SHOWN, "")))
        return step.delta.frame

    def _pairs(self, pair: Paired, join: int, layer: int) -> pl.DataFrame | None:
        """Returns the changes of a join at a layer. Pairs with rows of higher layers wait until these are reached."""
        of_left = sum(1 for _ in joins(pair.left))
        left = self._changes(pair.left, join + 1, layer)
        right = self._changes(pair.right, join + 1 + of_left, layer)
        one, two = 2 * join, 2 * join + 1
        self._join_changes(left, pair, JoinSide(one, two, pair.left_keys, pair.right_keys), join)
        self._join_changes(right, pair, JoinSide(two, one, pair.right_keys, pair.left_keys), join)
        here = self._paired.get(layer, {}).pop(join, None)
        return self._instants.ordered(self._bounded_net(here)) if here else None

    def _join_changes(self, changes: pl.DataFrame | None, pair: Paired, side: JoinSide, join: int) -> None:
        """Pairs the changes of one side with the current rows of the other side, and adds the changes to their side."""
        if changes is None:
            return
        keys = list(side.own_keys)
        changes = changes if pair.nulls_equal or not keys else changes.drop_nulls(keys)
        held = self._held(self._sides[side.other], side, changes)
        own = self._sides[side.own]
        self._sides[side.own] = own.append(Delta(in_order(changes)), self._move.start)
        if not held.height or not changes.height:
            return
        found: list[pl.DataFrame] = []
        for part in pairs(changes, held, side):
            found.append(part)
            refuse_too_many(found, self._recursion.name, joining.MAX_RAW_PAIRS)
        for part in found:
            for at, rows in _by_layer(part):
                self._paired[at][join].append(rows)

    def _held(self, trace: Trace, side: JoinSide, changes: pl.DataFrame) -> pl.DataFrame:
        """Returns the rows of the other side that may be partners."""
        if not side.own_keys:
            return trace.delta().advance(self._move.start).consolidate().frame if trace.runs else pl.DataFrame()
        names = zip(side.own_keys, side.other_keys, strict=True)
        wanted = changes.select(pl.col(own).alias(other) for own, other in names).unique()
        return trace.lookup(wanted, self._move.start).frame

    def _bounded_net(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        changes = parts[0] if len(parts) == 1 else net(pl.concat(parts))
        refuse_too_many([changes], self._recursion.name, joining.MAX_PAIRS)
        return changes

    def _reported(self) -> pl.DataFrame | None:
        """Returns the rows in fault, each once for an instant, because a row may change its layer."""
        return pl.concat(self._faults).unique().sort(pl.all()) if self._faults else None

    def _output(self) -> Delta:
        columns = self._recursion.relations[self._recursion.output]
        if not self._found:
            return Delta.empty(polars_schema(columns))
        found = pl.concat(self._found).group_by(*columns.names, FROM, maintain_order=True).agg(pl.col(WEIGHT).sum())
        changed = found.filter(pl.col(WEIGHT) != 0).with_columns(pl.lit(FOREVER, pl.Int64).alias(TO))
        return Delta(self._instants.ordered(changed).select(*columns.names, *RESERVED))


def _by_layer(paired: pl.DataFrame) -> Iterable[tuple[int, pl.DataFrame]]:
    """Returns the pairs by layer."""
    if LAYER not in paired.columns:
        return [(_GIVEN, paired)]
    return [(cast(int, part[LAYER][0]), part) for part in paired.partition_by(LAYER, maintain_order=True)]


def _as_kept(rows: pl.DataFrame, columns: pa.Schema, layer: int) -> pl.DataFrame:
    shown = rows.select(*columns.names, FROM, WEIGHT)
    zeros = canonical_zeros(shown.select(columns.names))
    return shown.with_columns(*zeros, pl.lit(layer, pl.Int64).alias(LAYER)).select(*columns.names, LAYER, FROM, WEIGHT)
