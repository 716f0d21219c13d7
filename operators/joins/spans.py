"""Spans: the elements of one step, each with the retraction in the same step that ends it.

A row that changes repeatedly has many versions in a step; each ends where the next one begins. If a join paired all n
elements of a key on one side with all m on the other, nearly all of the n·m pairs would cancel or never be valid.
Therefore two spans form a pair only if one begins while the other is present, and the pair is retracted when the first
of the two is. A pair has no retraction if both spans end without one, as the rows of a window do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from operators.core.delta import FROM, ORDER, RESERVED, TO, WEIGHT
from operators.core.run import HASH, Run
from operators.kernels.points import LEAST, expand_ranges
from operators.state.sorted_trace import same_as_before

_NONE = -1
Indexes = np.ndarray


def candidates_of_step(left: Run, right: Run) -> tuple[Indexes, Indexes]:
    """The pairs of elements with equal hashes that a join needs, as indexes in each run. Both runs are from the same
    step and sorted by the hash of the key. Pairs that are left out cancel each other, or are never valid.

    >>> from operators.core.delta import Delta
    >>> from operators.core.run import arranged
    >>> one = Delta.of([("+", {"k": 1, "v": 1}, 1), ("-", {"k": 1, "v": 1}, 3), ("+", {"k": 1, "v": 2}, 3)])
    >>> run = Run(arranged(one.frame, ["k"]), "key")
    >>> [tuple(map(int, pair)) for pair in zip(*candidates_of_step(run, run), strict=True)]
    [(0, 0), (2, 2), (1, 0)]
    """
    sides = _Spans.of(left), _Spans.of(right)
    lefts, rights = _on_one_clock(*sides)
    # Each pair of overlapping spans is found once: where the later one begins.
    present_left, begun_right = lefts.with_begun(rights, at_once=True)
    present_right, begun_left = rights.with_begun(lefts, at_once=False)
    at_left, at_right = np.concatenate([present_left, begun_left]), np.concatenate([begun_right, present_right])
    retracted_left, retracted_right = lefts.retracted[at_left], rights.retracted[at_right]
    left_first = np.flatnonzero((retracted_left <= retracted_right) & (retracted_left < lefts.never))
    right_first = np.flatnonzero(retracted_right < retracted_left)
    at_left, at_right = lefts.index[at_left], rights.index[at_right]
    left_indexes = [sides[0].at[at_left], sides[0].retraction[at_left[left_first]], sides[0].at[at_left[right_first]]]
    right_indexes = [
        sides[1].at[at_right],
        sides[1].at[at_right[left_first]],
        sides[1].retraction[at_right[right_first]],
    ]
    return np.concatenate(left_indexes), np.concatenate(right_indexes)


@dataclass(frozen=True)
class _Spans:
    """Spans of a run that is sorted by the hash of the key. For each span, `at` has the index of its element, and
    `retraction` the index of the retraction that ends it, or -1 if it has none.

    A retraction ends an insertion if it is the next change of the same row; any other retraction is an element by
    itself. An element that is retracted at its own instant and order is left out together with its retraction, because
    all their pairs cancel.
    """

    run: Run
    at: np.ndarray
    retraction: np.ndarray

    @staticmethod
    def of(run: Run) -> _Spans:
        names = [name for name in run.frame.columns if name not in (*RESERVED, HASH)]
        rows = run.frame.select(names).hash_rows().to_numpy() if names else np.zeros(run.height)
        start, until, weight, number = (run.frame[name].to_numpy() for name in (FROM, TO, WEIGHT, ORDER))
        order = np.lexsort((-weight, number, start, until, rows))
        ordered, weight = run.frame[order], weight[order]
        ends = np.flatnonzero(same_as_before(ordered, [*names, TO]) & (weight == -1))
        ends = ends[weight[ends - 1] == 1]
        retraction = np.full(run.height, _NONE, np.int64)
        retraction[order[ends - 1]] = order[ends]
        left_out = np.zeros(run.height, np.bool_)
        left_out[order[ends]] = True
        left_out |= (retraction != _NONE) & (start == start[retraction]) & (number == number[retraction])
        at = np.flatnonzero(~left_out)
        return _Spans(run, at, retraction[at])

    @property
    def hashes(self) -> np.ndarray:
        """The hash of each span."""
        return np.asarray(self.run.sorted_column[self.at])

    def _causes(self, indexes: Indexes) -> np.ndarray:
        """The pairs (instant, order) of elements of the run; `__order` sorts the changes of an instant."""
        return np.stack([self.run.frame[name].to_numpy()[indexes] for name in (FROM, ORDER)], axis=1)

    def times(self) -> list[np.ndarray]:
        """Three arrays with a pair (instant, order) for each span: its beginning; its retraction, or an arbitrary pair
        if it has none; and the end of its element, with an order below all others."""
        ends = self.run.frame[TO].to_numpy()[self.at]
        return [
            self._causes(self.at),
            self._causes(self.retraction),
            np.stack([ends, np.full(len(ends), LEAST)], axis=1),
        ]

    def in_order(self, group: np.ndarray, times: Sequence[np.ndarray], never: int) -> _SortedSpans:
        """The spans sorted by (group, begin). `times` are the numbers of their `times()`, and `never` is greater."""
        begin, retraction, until = times
        retracted = np.where(self.retraction == _NONE, never, retraction)
        index = np.lexsort((begin, group))
        return _SortedSpans(
            index, group[index], begin[index], np.minimum(retracted, until)[index], retracted[index], never
        )


@dataclass(frozen=True)
class _SortedSpans:
    """The spans of one side, sorted by (group, begin). A group is an integer for a hash. Groups and times are numbered
    in common for both sides. `index` has the position of each span in its `_Spans`."""

    index: np.ndarray
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    #: When each span is retracted; `never` comes after all times.
    retracted: np.ndarray
    never: int

    def with_begun(self, others: _SortedSpans, *, at_once: bool) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a span and a span of `others` that begins later, while the first is present. With `at_once`,
        spans that begin at the same time also form pairs. Both are indexes in the sorted spans."""
        scale = self.never + 1
        points = others.group * scale + others.begin
        low = np.searchsorted(points, self.group * scale + self.begin, "left" if at_once else "right")
        high = np.searchsorted(points, self.group * scale + self.end, "left")
        return expand_ranges(low, np.maximum(high - low, 0))


def _on_one_clock(left: _Spans, right: _Spans) -> tuple[_SortedSpans, _SortedSpans]:
    """Both sides, sorted; the same integer stands for the same hash, and for the same time, on both sides."""
    hashes = np.unique(np.concatenate([left.hashes, right.hashes]))
    times = [*left.times(), *right.times()]
    clock, number = np.unique(np.concatenate(times), axis=0, return_inverse=True)
    numbers = np.split(number.ravel(), np.cumsum([len(each) for each in times[:-1]]))
    return (
        left.in_order(np.searchsorted(hashes, left.hashes), numbers[:3], len(clock)),
        right.in_order(np.searchsorted(hashes, right.hashes), numbers[3:], len(clock)),
    )
