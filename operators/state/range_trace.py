"""RangeTrace: a trace in which the elements of a key are sorted by a column, to find ranges and nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.run import HASH, Run, arranged, key_hash
from operators.kernels.pairs import sorted_by_two
from operators.kernels.points import GREATEST, LEAST, expand_ranges, first_at_least, points_of
from operators.state.trace import Trace, consolidated

#: The value of the column as a point.
POINT = "__point"
#: The number of the question that a row answers.
QUESTION = "__question"
#: How many elements of each run are read first to find the nearest row, and the factor by which this number grows.
_FIRST_READ, _READ_GROWTH = 2, 4


@dataclass(frozen=True)
class Questions:
    """Lookups: keys with their uint64 hashes, and an int64 point for each."""

    keys: tuple[pl.Series, ...]
    hashes: np.ndarray
    points: np.ndarray

    @staticmethod
    def of(frame: pl.DataFrame, keys: Sequence[str], points: np.ndarray) -> Questions:
        """Returns a question for each row of a frame, which may already have HASH."""
        hashes = frame[HASH] if HASH in frame.columns else key_hash(frame, keys)
        return Questions(tuple(frame[key] for key in keys), hashes.to_numpy(), points)

    def __add__(self, other: Questions) -> Questions:
        """Returns these questions, then the others."""
        keys = tuple(pl.concat([key, added.alias(key.name)]) for key, added in zip(self.keys, other.keys, strict=True))
        hashes, points = (self.hashes, other.hashes), (self.points, other.points)
        return Questions(keys, np.concatenate(hashes), np.concatenate(points))

    def __getitem__(self, places: np.ndarray) -> Questions:
        return Questions(tuple(key[places] for key in self.keys), self.hashes[places], self.points[places])


@dataclass(frozen=True)
class RangeTrace(Trace):
    """A trace by key whose runs are sorted by (key hash, `column`). NULLs in the column are not kept.

    >>> trace = RangeTrace("key", ("k",), column="t")
    >>> trace = trace.append(Delta.of([("+", {"k": "a", "t": t}, 5) for t in (3, 1, 9)]), 6)
    >>> trace.nearest(Questions.of(pl.DataFrame({"k": ["a", "a"]}), ["k"], np.array([4, 0]))).select("t").rows()
    [(3,)]
    """

    column: str = ""

    def append(self, delta: Delta, frontier: int) -> RangeTrace:
        """As `Trace.append`; the delta may have HASH and POINT."""
        return cast(RangeTrace, super().append(delta, frontier))

    def within(self, questions: Questions, highs: np.ndarray) -> pl.DataFrame:
        """Returns the rows present at the frontier with the key of a question and a point from the question's to
        `highs`, both included, with POINT, QUESTION and their multiplicity `__weight`: O(log |state| + answers) for
        each question.
        """
        gathered = [
            gather_ranges(run, *range_places(run, questions.hashes, questions.points, highs)) for run in self.runs
        ]
        return _net(self._of_key(pl.concat(gathered), questions)) if gathered else pl.DataFrame()

    def nearest(self, questions: Questions, *, above: bool = False) -> pl.DataFrame:
        """Returns, for each question, the row present at the frontier with its key and the greatest point ≤ its point
        (`above`: the least point ≥ it), if there is one, with POINT and QUESTION. At most one row of a key and point
        may be present. O(log |state|) for each question, unless most of the rows next to it are cancelled.
        """
        still, most = np.arange(len(questions.points)), _FIRST_READ
        answers: list[pl.DataFrame] = []
        while len(still) and self.runs:
            nearest_rows, unsure = self._near(questions[still], most, above=above)
            unsure[nearest_rows[QUESTION].to_numpy()] = False
            numbers = pl.Series(QUESTION, still[nearest_rows[QUESTION].to_numpy()], pl.Int64)
            answers.append(nearest_rows.with_columns(numbers))
            still, most = still[unsure], most * _READ_GROWTH
        return pl.concat(answers) if answers else pl.DataFrame()

    def _near(self, questions: Questions, most: int, *, above: bool) -> tuple[pl.DataFrame, np.ndarray]:
        """Returns the answers that `most` elements of every run decide, and a mask of the questions for which a run has
        further elements.

        An answer is certain if it is nearer than the farthest element that was read of any run with further elements.
        """
        size = len(questions.points)
        low, high = (questions.points, np.full(size, GREATEST)) if above else (np.full(size, LEAST), questions.points)
        unsure, limits = np.zeros(size, np.bool_), np.full(size, GREATEST if above else LEAST)
        gathered = []
        for run in self.runs:
            begin, counts = range_places(run, questions.hashes, low, high)
            taken = np.minimum(counts, most)
            first = begin if above else begin + counts - taken
            cut = np.flatnonzero(taken < counts)
            last = run.frame[POINT].to_numpy()[first[cut] + (most - 1 if above else 0)]
            limits[cut] = np.minimum(limits[cut], last) if above else np.maximum(limits[cut], last)
            unsure[cut] = True
            gathered.append(gather_ranges(run, first, taken))
        rows = self._of_key(pl.concat(gathered), questions)
        point, question = rows[POINT].to_numpy(), rows[QUESTION].to_numpy()
        nearer = point < limits[question] if above else point > limits[question]
        return _best(rows.filter(pl.Series(nearer | ~unsure[question])), above=above), unsure

    def _of_key(self, rows: pl.DataFrame, questions: Questions) -> pl.DataFrame:
        """Returns the rows without those that have the hash of their question's key, but another key."""
        asked, same = rows[QUESTION], pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
        for column, values in zip(self.keys, questions.keys, strict=True):
            same &= rows[column].eq_missing(values.gather(asked))
        return rows if same.all() else rows.filter(same)

    def delta(self) -> Delta:
        """Returns all elements as one delta; an empty frame if there are none."""
        return Delta(super().delta().frame.drop(POINT, strict=False))

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        alive = self._alive(frame, frontier)
        placed = alive if POINT in alive.columns else arranged_by_point(alive, self.keys, self.column)
        return Run(sort_by_point(consolidated(placed)), "key")

    def _merge(self, frontier: int, elder: Run, younger: Run) -> Run:
        both = pl.concat([self._alive(elder.frame, frontier), self._alive(younger.frame, frontier)])
        return Run(sort_by_point(consolidated(sort_by_point(both))), "key")


def arranged_by_point(frame: pl.DataFrame, keys: Sequence[str], column: str) -> pl.DataFrame:
    """Returns the rows whose `column` is not NULL, with the hash of the keys and the point of the column, sorted by
    both."""
    ordered = arranged(frame.drop_nulls(column), keys)
    return sort_by_point(ordered.with_columns(pl.Series(POINT, points_of(ordered[column]), pl.Int64)))


def sort_by_point(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the frame sorted by (hash, point)."""
    hashes, points = frame[HASH].to_numpy(), frame[POINT].to_numpy()
    later, same = hashes[1:] > hashes[:-1], hashes[1:] == hashes[:-1]
    if (later | (same & (points[1:] >= points[:-1]))).all():
        return frame
    return frame[sorted_by_two(hashes, points)]


def range_places(run: Run, hashes: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each hash, the index in a run at which its elements with `low ≤ point ≤ high` begin, and their
    number."""
    begin, counts = run.matches(hashes)
    points = run.frame[POINT].to_numpy()
    first = first_at_least(points, begin, begin + counts, lows)
    beyond = np.where(highs == GREATEST, begin + counts, first)
    ends = first_at_least(points, beyond, begin + counts, np.where(highs == GREATEST, highs, highs + 1))
    return first, np.maximum(ends - first, 0)


def gather_ranges(run: Run, begin: np.ndarray, counts: np.ndarray) -> pl.DataFrame:
    """Returns the elements of a range of indices for each question, with the number of the question in QUESTION."""
    question, at = expand_ranges(begin, counts)
    return run.frame[at].drop(HASH, FROM, TO, ORDER).with_columns(pl.Series(QUESTION, question, pl.Int64))


def _best(rows: pl.DataFrame, *, above: bool) -> pl.DataFrame:
    """Returns, for each question, the row that is present at the nearest point."""
    present = rows.group_by(QUESTION, POINT).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) > 0)
    best = present.group_by(QUESTION).agg(pl.col(POINT).min() if above else pl.col(POINT).max())
    return _net(rows.join(best, on=[QUESTION, POINT], how="semi")).drop(WEIGHT)


def _net(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds up equal rows of a question, and drops zeros."""
    if not (rows[WEIGHT] < 0).any():
        return rows
    summed = rows.group_by(pl.exclude(WEIGHT), maintain_order=True).agg(pl.col(WEIGHT).sum())
    return summed.filter(pl.col(WEIGHT) != 0).select(rows.columns)
