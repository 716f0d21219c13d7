"""Join: A ⋈ B at τ holds the pairs of a row of A at τ and a row of B at τ whose keys are equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.core.run import HASH, Run, arranged
from operators.joins.spans import candidates_of_step
from operators.kernels.cancellation import cancel_retractions
from operators.kernels.consolidation import add_up
from operators.state.key_trace import KeyTrace
from operators.state.range_trace import POINT
from operators.state.span_trace import REACH
from operators.state.trace import Trace

#: If a step has more candidate pairs than FEW_PAIRS plus PAIRS_AN_ELEMENT for each element, pairs that cancel each
#: other are not formed.
FEW_PAIRS, PAIRS_AN_ELEMENT = 1_000, 4
_CAUSE = "__cause"
_NOT_ROW = (*RESERVED, HASH, POINT, REACH)
Indexes = np.ndarray
_Sides = tuple[pl.DataFrame, pl.DataFrame]
_Search = Callable[[Run, Run], tuple[Indexes, Indexes]]


@dataclass(frozen=True, slots=True)
class Join:
    """Bilinear: Δ(A ⋈ B) = ΔA ⋈ B + A ⋈ ΔB + ΔA ⋈ ΔB, where intervals intersect and weights multiply.

    A row has the columns of the left side, then those of the right; names are disjoint, and the key columns of both
    sides have the same types. NULL keys have no partner unless `nulls_equal`. Without keys it is the cross product. An
    output element has the order of the newer of its two elements, or the greater order if both start at the same
    instant. `left_bound` is a column of the left side, of integers or times: the planner promises that rows with
    `bound ≤ frontier` get no further partner and neither enter nor leave. Such rows are dropped from the state, as are
    elements that ended. `right_bound` is the same for the right side. A bound on a key column also applies to the equal
    key column of the other side.

    >>> join = Join(("a",), ("b",))
    >>> left, right = Delta.of([("+", {"a": 1}, 3)]), Delta.of([("+", {"b": 1}, 5), ("-", {"b": 1}, 7)])
    >>> joined = join.step(left, right, join.traces(), Move(0, 9)).delta
    >>> joined.frame.select("a", "b", "__from", "__weight").rows()
    [(1, 1, 5, 1), (1, 1, 7, -1)]
    """

    operator_version: ClassVar[int] = 1
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool = False
    left_bound: str | None = None
    right_bound: str | None = None

    def traces(self) -> tuple[Trace, ...]:
        """The states of the left and the right side, by key."""
        left, right = self._bounds()
        return KeyTrace("key", self.left_keys, bound=left), KeyTrace("key", self.right_keys, bound=right)

    def _bounds(self) -> tuple[str | None, str | None]:
        """The bounds of both sides; a bound on a key column is also the bound of the other side's equal key."""
        to_right = dict(zip(self.left_keys, self.right_keys, strict=True))
        to_left = dict(zip(self.right_keys, self.left_keys, strict=True))
        left, right = self.left_bound, self.right_bound
        return left or to_left.get(right or ""), right or to_right.get(left or "")

    def step(self, left: Delta, right: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The pairs that contain at least one element of this step."""
        if not len(left) and not len(right):
            return Step(Delta(_side_by_side(left.frame, right.frame, left.frame)), traces)
        held_left, held_right = traces
        new_left, new_right = self._new(left, right=False), self._new(right, right=True)
        pieces = [
            _side_by_side(new_left.frame.clear(), new_right.frame.clear(), new_left.frame.clear()),
            self._pairs(paired_elements(new_left, held_right.runs, self._candidates), right_new=False),
            self._pairs(
                _swapped(paired_elements(new_right, held_left.runs, self._candidates_of_right)), left_new=False
            ),
            self._pairs(paired_elements(new_left, (new_right,), self._candidates_of_step)),
        ]
        kept = held_left.append(Delta(new_left.frame), move.end), held_right.append(Delta(new_right.frame), move.end)
        return Step(Delta(_net(pl.concat([piece for piece in pieces if piece is not None]))), kept)

    def _new(self, delta: Delta, *, right: bool) -> Run:
        """The elements of a side that may have a partner, as a run by key."""
        return Run(arranged(*self._with_keys(delta, right=right)), "key")

    def _with_keys(self, delta: Delta, *, right: bool) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The elements of a side whose keys may equal those of the other side, and the side's keys."""
        keys = self.right_keys if right else self.left_keys
        return (delta.frame if self.nulls_equal or not keys else delta.frame.drop_nulls(list(keys))), keys

    def _candidates(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        """The indexes of candidate pairs in two runs; `_matches` decides which of them are joined."""
        return _equal_hashes(left, right)

    def _candidates_of_step(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        """The indexes of candidate pairs of elements of one step. If rows have many versions, most of their pairs
        cancel and are not formed."""
        return _equal_hashes(left, right, FEW_PAIRS + PAIRS_AN_ELEMENT * (left.height + right.height))

    def _candidates_of_right(self, right: Run, left: Run) -> tuple[Indexes, Indexes]:
        at_left, at_right = self._candidates(left, right)
        return at_right, at_left

    def _pairs(self, sides: _Sides | None, *, left_new: bool = True, right_new: bool = True) -> pl.DataFrame | None:
        """The joined elements of candidate pairs. A side is `new` if it is from this step; else it is older than the
        other."""
        if sides is None:
            return None
        left, right = sides
        start, order = _cause(_Side(left, left_new), _Side(right, right_new))
        end = np.minimum(_values(left, TO), _values(right, TO))
        weight = _values(left, WEIGHT) * _values(right, WEIGHT)
        reserved = pl.DataFrame({FROM: start, TO: end, WEIGHT: weight, ORDER: order})
        pairs = _side_by_side(left, right, reserved)
        true = self._matches(left, right) & pl.Series(start < end)
        return pairs if true.all() else pairs.filter(true)

    def _matches(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.Series:
        """For each candidate pair, which has equal hashes, whether its keys are equal."""
        true = pl.repeat(True, left.height, eager=True, dtype=pl.Boolean)
        for left_key, right_key in zip(self.left_keys, self.right_keys, strict=True):
            true &= left[left_key].eq_missing(right[right_key])
        return true


@dataclass(frozen=True, slots=True)
class _Side:
    frame: pl.DataFrame
    new: bool


def _cause(left: _Side, right: _Side) -> tuple[np.ndarray, np.ndarray]:
    """The instants at which pairs begin, and the orders of the pairs."""
    if not (left.new and right.new):
        newer = left if left.new else right
        return _values(newer.frame, FROM), _values(newer.frame, ORDER)
    starts = [_values(side.frame, FROM) for side in (left, right)]
    orders = [_values(side.frame, ORDER) for side in (left, right)]
    newer_order = np.where(starts[0] > starts[1], orders[0], orders[1])
    return np.maximum(*starts), np.where(starts[0] == starts[1], np.maximum(*orders), newer_order)


def _side_by_side(left: pl.DataFrame, right: pl.DataFrame, reserved: pl.DataFrame) -> pl.DataFrame:
    rows = [column for side in (left, right) for column in side.get_columns() if column.name not in _NOT_ROW]
    return pl.DataFrame([*rows, *(reserved[name] for name in RESERVED)])


def _swapped(sides: _Sides | None) -> _Sides | None:
    return None if sides is None else (sides[1], sides[0])


def paired_elements(new: Run, others: Sequence[Run], search: _Search) -> _Sides | None:
    """The candidate pairs of a run and the others: two frames of the same height, None if there are no pairs."""
    places = [search(new, other) for other in others]
    sides = [(at_new, other.frame[at]) for other, (at_new, at) in zip(others, places, strict=True) if len(at)]
    if not sides:
        return None
    return new.frame[np.concatenate([at_new for at_new, _ in sides])], pl.concat([rows for _, rows in sides])


def _equal_hashes(left: Run, right: Run, most: float = math.inf) -> tuple[Indexes, Indexes]:
    """The indexes of the pairs of elements with equal hashes. The smaller run is looked up in the larger one, which may
    be state. If two runs of one step have more than `most` pairs, pairs that cancel each other are left out."""
    if left.height > right.height:
        at_right, at_left = _equal_hashes(right, left, most)
        return at_left, at_right
    if not left.height:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    hashes, hash_of = left.distinct
    low, counts = (column[hash_of] for column in right.matches(hashes))
    if counts.sum() > most:
        return candidates_of_step(left, right)
    # Left element i pairs with the right elements low[i], low[i] + 1, …: low [4, 0] and counts [2, 1] give
    # at_left [0, 0, 1] and at_right [4, 5, 0].
    at_left = np.repeat(np.arange(left.height), counts)
    return at_left, np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(len(at_left))


def _net(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs without those that cancel each other and have the same cause (instant and order).

    Elements that have cancelled in the state are never paired. If the same elements come in one step, they are paired;
    the result must not depend on how time is cut into steps.
    """
    if not (pairs[WEIGHT] < 0).any():
        return pairs
    caused = pairs.with_columns(pl.col(ORDER).alias(_CAUSE))
    hashes = caused.drop(WEIGHT).hash_rows().to_numpy()
    order = np.argsort(hashes)
    net = cancel_retractions(caused, order, hashes[order], ())
    return add_up(pairs, [name for name in pairs.columns if name != WEIGHT]) if net is None else net.drop(_CAUSE)


def _values(frame: pl.DataFrame, name: str) -> np.ndarray:
    return frame[name].to_numpy()
