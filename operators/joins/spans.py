"""Spans: the elements of one step, each with the retraction in the same step that ends it.

A row that changes repeatedly has many versions in a step; each ends where the next one begins. Rows of a window end
without a retraction. Pairing all n elements of a key on one side with all m on the other would form n·m pairs, and
nearly all of them cancel or are never valid. Spans form a pair only where one span begins while the other is present,
and the pair's retraction where the first of the two is retracted.
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
    """The indexes of pairs of elements with equal hashes in two runs by key, both from one step. Pairs that are left
    out cancel each other.

    >>> from operators.core.delta import Delta
    >>> from operators.core.run import arranged
    >>> one = Delta.of([("+", {"k": 1, "v": 1}, 1), ("-", {"k": 1, "v": 1}, 3), ("+", {"k": 1, "v": 2}, 3)])
    >>> run = Run(arranged(one.frame, ["k"]), "key")
    >>> [tuple(map(int, pair)) for pair in zip(*candidates_of_step(run, run), strict=True)]
    [(0, 0), (2, 2), (1, 0)]
    """
    sides = _Spans.of(left), _Spans.of(right)
    lefts, rights = _on_one_clock(*sides)
    of_left, begun_right = lefts.with_begun(rights, at_once=True)
    of_right, begun_left = rights.with_begun(lefts, at_once=False)
    at_left, at_right = np.concatenate([of_left, begun_left]), np.concatenate([begun_right, of_right])
    retracted_left, retracted_right = lefts.retracted[at_left], rights.retracted[at_right]
    by_left = np.flatnonzero((retracted_left <= retracted_right) & (retracted_left < lefts.never))
    by_right = np.flatnonzero(retracted_right < retracted_left)
    at_left, at_right = lefts.index[at_left], rights.index[at_right]
    left_indexes = [sides[0].at[at_left], sides[0].retraction[at_left[by_left]], sides[0].at[at_left[by_right]]]
    right_indexes = [sides[1].at[at_right], sides[1].at[at_right[by_left]], sides[1].retraction[at_right[by_right]]]
    return np.concatenate(left_indexes), np.concatenate(right_indexes)


@dataclass(frozen=True)
class _Spans:
    """Elements of a run by key: their indexes `at`, and in `retraction` the index of the retraction that ends each,
    -1 for none.

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
        return np.stack([self.run.frame[name].to_numpy()[indexes] for name in (FROM, ORDER)], axis=1)

    def times(self) -> list[np.ndarray]:
        """For each span: the instant and order of its beginning; those of its retraction (without one, those of any
        element); and the instant of its end, with an order before all others."""
        ends = self.run.frame[TO].to_numpy()[self.at]
        return [
            self._causes(self.at),
            self._causes(self.retraction),
            np.stack([ends, np.full(len(ends), LEAST)], axis=1),
        ]

    def in_order(self, group: np.ndarray, times: Sequence[np.ndarray], never: int) -> _SortedSpans:
        """The spans sorted by (group, begin), with numbers in place of their times."""
        begin, retraction, until = times
        retracted = np.where(self.retraction == _NONE, never, retraction)
        index = np.lexsort((begin, group))
        return _SortedSpans(
            index, group[index], begin[index], np.minimum(retracted, until)[index], retracted[index], never
        )


@dataclass(frozen=True)
class _SortedSpans:
    """The spans of one side, sorted by (group, begin). Groups and times are small integers that mean the same on both
    sides; `index` has the number of each span."""

    index: np.ndarray
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    #: When each span is retracted; `never` comes after all times.
    retracted: np.ndarray
    never: int

    def with_begun(self, others: _SortedSpans, *, at_once: bool) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a span and one of the other side that begins after it (with `at_once`, also at the same moment)
        while it is present; both as indexes in the sorted spans."""
        scale = self.never + 1
        points = others.group * scale + others.begin
        low = np.searchsorted(points, self.group * scale + self.begin, "left" if at_once else "right")
        high = np.searchsorted(points, self.group * scale + self.end, "left")
        return expand_ranges(low, np.maximum(high - low, 0))


def _on_one_clock(left: _Spans, right: _Spans) -> tuple[_SortedSpans, _SortedSpans]:
    """Both sides with a common numbering of hashes and of the times of their spans."""
    hashes = np.unique(np.concatenate([left.hashes, right.hashes]))
    times = [*left.times(), *right.times()]
    clock, number = np.unique(np.concatenate(times), axis=0, return_inverse=True)
    numbers = np.split(number.ravel(), np.cumsum([len(each) for each in times[:-1]]))
    return (
        left.in_order(np.searchsorted(hashes, left.hashes), numbers[:3], len(clock)),
        right.in_order(np.searchsorted(hashes, right.hashes), numbers[3:], len(clock)),
    )
