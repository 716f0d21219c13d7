"""Recursion: the least relations that contain all rows which their rules derive from them (WITH RECURSIVE)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta, polars_schema
from operators.core.errors import UserError
from operators.core.operator import FAULT_ROW, Move, Step
from operators.expressions import Column
from operators.recursion.presence import LAYER, Presence
from operators.recursion.term import Given, Leaf, Meeting, Projected, Recurred, Rule, Selected, Stage, kept_keys, ways
from operators.relational.filter import Filter
from operators.relational.project import Project
from operators.state.trace import Trace

_LAYER = (LAYER, Column(LAYER, pa.int64(), nullable=False))
#: What a row in fault shows of its layer, which users do not know.
_LAYER_SHOWN = f',?"{LAYER}":[0-9]+'
_OTHER = "__other"
#: The most pairs of a join at one instant, in one iteration.
MOST_PAIRS = 20_000_000


@dataclass(frozen=True, slots=True)
class Recursion:
    """The relation `output` of several that are defined by rules, each the least set that contains what its rules
    derive, at every instant. `relations` are the columns of each. Inputs and output are changes; the output is a set.

    A change costs what is derived with it, not what is held: derivations are counted at each layer, and a step follows
    the changes from layer to layer (F. McSherry et al., Differential dataflow, CIDR 2013, section 3, for the idea of
    one order of changes for each pair of an instant and an iteration). A step raises UserError if something is derived
    at a layer above `limit`: the recursion may never end.

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

    operator_version: ClassVar[int] = 1
    name: str = field(compare=False)
    relations: tuple[pa.Schema, ...]
    rules: tuple[Rule, ...]
    output: int
    limit: int = 1_000

    def traces(self) -> tuple[Trace, ...]:
        """The derivations of each relation by row, then the sides of the joins by key."""
        return (
            *(Trace("key", tuple(columns.names)) for columns in self.relations),
            *(Trace("key", keys) for keys in kept_keys(self.rules)),
        )

    def step(self, *given: Any) -> Step:
        """The rows that enter or leave. The arguments are the changes of the inputs, then the traces and the move."""
        *inputs, traces, move = given
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
        """The changes with the order of their instant, whatever they were derived from: so it does not depend on how
        time is cut into steps."""
        orders = self.orders[np.searchsorted(self.at, changes[FROM].to_numpy())]
        return changes.with_columns(pl.Series(ORDER, orders))


class _Following:
    """One step: changes are followed from the inputs up, then from layer to layer."""

    def __init__(self, recursion: Recursion, instants: _Instants, traces: list[Trace], move: Move) -> None:
        relations = len(recursion.relations)
        self._recursion, self._instants, self._move = recursion, instants, move
        self._ways = ways(recursion.rules)
        self._presences = [Presence(trace, move.start) for trace in traces[:relations]]
        self._sides = traces[relations:]
        #: What is derived, by layer and relation, until its layer is reached.
        self._derived: dict[int, dict[int, list[pl.DataFrame]]] = defaultdict(lambda: defaultdict(list))
        self._found: list[pl.DataFrame] = []
        self._faults: list[pl.DataFrame] = []

    def step(self, inputs: Sequence[Delta]) -> Step:
        """The changes of the output, and the traces after the step."""
        for number, delta in enumerate(inputs):
            if len(delta):
                self._follow(Given(number), self._instants.ordered(delta.frame))
        layer: int | None = -1
        while (layer := self._next(cast(int, layer))) is not None:
            self._reach(layer)
        kept = (presence.kept(self._move.end, self._instants.ordered) for presence in self._presences)
        faults = pl.concat(self._faults) if self._faults else None
        return Step(self._output(), (*kept, *self._sides), faults)

    def _next(self, layer: int) -> int | None:
        """The next layer at which something may change."""
        above = (presence.above(layer) for presence in self._presences)
        return min((*self._derived, *(at for at in above if at is not None)), default=None)

    def _reach(self, layer: int) -> None:
        """Follows what changes at a layer: all that is derived at it is known."""
        if layer > self._recursion.limit:
            raise UserError(
                f"WITH RECURSIVE {self._recursion.name} has not ended after {self._recursion.limit:,} iterations",
                hint="bound it by a condition, such as WHERE depth < 100, or do not compute new values in it",
            )
        for head, derived in self._derived.pop(layer, {}).items():
            self._presences[head].add(pl.concat(derived))
        changes = [presence.changes(layer) for presence in self._presences]
        for head, changed in enumerate(changes):
            if changed is not None:
                if head == self._recursion.output:
                    self._found.append(changed)
                self._follow(Recurred(head), self._instants.ordered(changed))

    def _follow(self, leaf: Leaf, changes: pl.DataFrame) -> None:
        """Derives what follows from changes of a relation, in each place where a rule reads it."""
        for way in self._ways:
            if way.leaf == leaf:
                derived = self._climbed(way.stages, changes)
                if derived.height:
                    columns = self._recursion.relations[way.head].names
                    for layer, rows in _by_layer(derived):
                        self._derived[layer][way.head].append(_as_kept(rows, columns, layer))

    def _climbed(self, stages: Iterable[Stage], changes: pl.DataFrame) -> pl.DataFrame:
        for stage in stages:
            if not changes.height:
                break
            match stage:
                case Meeting():
                    changes = self._paired(stage, changes)
                case Selected():
                    changes = self._stateless(Filter(stage.predicate), changes)
                case Projected():
                    layer = [_LAYER] if LAYER in changes.columns else []
                    changes = self._stateless(Project((*stage.outputs, *layer)), changes)
        return changes

    def _stateless(self, operator: Filter | Project, changes: pl.DataFrame) -> pl.DataFrame:
        step = operator.step(Delta(changes), (), self._move)
        if step.faults is not None:
            self._faults.append(step.faults.with_columns(pl.col(FAULT_ROW).str.replace(_LAYER_SHOWN, "")))
        return step.delta.frame

    def _paired(self, meeting: Meeting, changes: pl.DataFrame) -> pl.DataFrame:
        """The pairs of changes of one side with what is on the other side by now; the side then has the changes."""
        keys = list(meeting.own_keys)
        changes = changes if meeting.nulls_equal else changes.drop_nulls(keys) if keys else changes
        held = self._held(self._sides[meeting.other], meeting, changes)
        own = self._sides[meeting.own]
        self._sides[meeting.own] = own.append(Delta(_in_order(changes)), self._move.start)
        if not held.height:
            return changes.clear()
        if _too_many(changes, held, meeting):
            raise UserError(
                f"WITH RECURSIVE {self._recursion.name} derives more than {MOST_PAIRS:,} rows at once",
                hint="bound it by a condition, or join it by a key with fewer rows for each value",
            )
        return self._instants.ordered(_pairs(changes, held, meeting))

    def _held(self, side: Trace, meeting: Meeting, changes: pl.DataFrame) -> pl.DataFrame:
        """The rows of the other side that may be partners."""
        if not meeting.own_keys:
            return side.delta().advance(self._move.start).consolidate().frame if side.runs else pl.DataFrame()
        names = zip(meeting.own_keys, meeting.other_keys, strict=True)
        wanted = changes.select(pl.col(own).alias(other) for own, other in names).unique()
        return side.lookup(wanted, self._move.start).frame

    def _output(self) -> Delta:
        columns = self._recursion.relations[self._recursion.output]
        if not self._found:
            return Delta.empty(polars_schema(columns))
        found = pl.concat(self._found).group_by(*columns.names, FROM, maintain_order=True).agg(pl.col(WEIGHT).sum())
        changed = found.filter(pl.col(WEIGHT) != 0).with_columns(pl.lit(FOREVER, pl.Int64).alias(TO))
        return Delta(self._instants.ordered(changed).select(*columns.names, *RESERVED))


def _too_many(changes: pl.DataFrame, held: pl.DataFrame, meeting: Meeting) -> bool:
    """Whether the changes of one instant have more pairs than memory should hold; they are counted only where there may
    be so many. Those of several instants are not added up, as more of them may be in one step."""
    if changes.height * held.height <= MOST_PAIRS:
        return False
    own, other = list(meeting.own_keys), list(meeting.other_keys)
    mine = changes.group_by(FROM, *own).len("n")
    if not own:
        return int(mine.select(pl.col("n").max()).item()) * held.height > MOST_PAIRS
    theirs = held.group_by(other).len("m")
    both = mine.join(theirs, left_on=own, right_on=other, nulls_equal=meeting.nulls_equal)
    pairs = both.group_by(FROM).agg((pl.col("n").cast(pl.Int64) * pl.col("m")).sum().alias("pairs"))
    return bool((pairs["pairs"] > MOST_PAIRS).any())


def _pairs(changes: pl.DataFrame, held: pl.DataFrame, meeting: Meeting) -> pl.DataFrame:
    """Pairs of changes and held rows: each is there from the later of their instants on, at the higher of their
    layers."""
    shared = [name for name in (FROM, WEIGHT, LAYER) if name in held.columns]
    others = held.drop(TO, ORDER).rename({name: _OTHER + name for name in shared})
    own, other = list(meeting.own_keys), list(meeting.other_keys)
    if own:
        equal = meeting.nulls_equal
        both = changes.join(others, left_on=own, right_on=other, how="inner", coalesce=False, nulls_equal=equal)
    else:
        both = changes.join(others, how="cross")
    layers = [pl.col(name) for name in (LAYER, _OTHER + LAYER) if name in both.columns]
    return both.with_columns(
        pl.max_horizontal(FROM, _OTHER + FROM).alias(FROM),
        (pl.col(WEIGHT) * pl.col(_OTHER + WEIGHT)).alias(WEIGHT),
        *([pl.max_horizontal(layers).alias(LAYER)] if layers else []),
    ).drop(_OTHER + name for name in shared)


def _by_layer(derived: pl.DataFrame) -> Iterable[tuple[int, pl.DataFrame]]:
    """What is derived, by the layer at which it is."""
    if LAYER not in derived.columns:
        return [(0, derived)]
    parts = derived.partition_by(LAYER, maintain_order=True)
    return [(cast(int, part[LAYER][0]) + 1, part) for part in parts]


def _as_kept(rows: pl.DataFrame, columns: Sequence[str], layer: int) -> pl.DataFrame:
    return rows.select(*columns, pl.lit(layer, pl.Int64).alias(LAYER), FROM, WEIGHT)


def _in_order(changes: pl.DataFrame) -> pl.DataFrame:
    """The changes with their columns in an order that does not depend on where they come from."""
    return changes.select(*sorted(set(changes.columns) - set(RESERVED)), *RESERVED)
