"""PartnerChanges: the changes of B in an as-of join, each with the range of rows of A that may change partner by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, WEIGHT
from operators.kernels.points import GREATEST, first_above, first_at_least
from operators.state.alive_items import AliveIndex
from operators.state.copies import first_equal
from operators.state.key_states import KeyStates
from operators.state.point_versions import KEY, PointVersions
from operators.state.range_trace import POINT, QUESTION, Questions, RangeTrace

_ROW, _UNTIL = "__row", "__until"


@dataclass(frozen=True)
class PartnerChanges:
    """A partner change is a (key, point) of B with an instant at which the row at this point changes, and the number of
    the key's state from then on (see `KeyStates`).

    It concerns the rows of A with that key and a point from `point` to `last`: up to the next row of B that is present
    before or after the instant. `read_until` is the point before the next row of B that is present during the whole
    move or changes in it.
    """

    questions: Questions
    key: np.ndarray
    instant: np.ndarray
    state: np.ndarray
    order: np.ndarray
    last: np.ndarray
    read_until: np.ndarray

    @staticmethod
    def of(versions: PointVersions, keys: Sequence[str]) -> PartnerChanges:
        """The partner changes of a move."""
        rows = versions.rows
        at = rows[FROM].to_numpy()
        starts = np.flatnonzero(versions.opens | np.append(True, at[1:] != at[:-1])[: len(at)])
        order = np.maximum.reduceat(rows[ORDER].to_numpy(), starts) if len(starts) else at
        touched = rows[starts]
        key, point = touched[KEY].to_numpy(), touched[POINT].to_numpy()
        state = versions.states.at(key, at[starts])
        questions = Questions.of(touched, keys, point)
        settled = _settled_above(versions, questions)
        next_ = [versions.above(key, point, neighbour_state) for neighbour_state in (state - 1, state)]
        nearest = np.minimum(*next_)
        known = np.append(versions.points, GREATEST)[np.minimum(nearest, len(versions.made))]
        ends = np.minimum(settled, np.where(nearest < len(versions.made), known - 1, GREATEST))
        return PartnerChanges(
            questions, key, at[starts], state, order, ends, np.minimum(settled, _before_next(key, point))
        )

    @property
    def point(self) -> np.ndarray:
        """The point of each partner change."""
        return self.questions.points

    def near(self, held: RangeTrace) -> pl.DataFrame:
        """The rows of A before the move that a partner change may concern, with KEY, POINT and their multiplicity."""
        places = np.flatnonzero(_opens(self.key, self.point))
        if not len(places) or not held.runs:
            return pl.DataFrame()
        rows = held.within(self.questions[places], self.read_until[places])
        owner = pl.Series(KEY, self.key[places][rows[QUESTION].to_numpy()], pl.Int64)
        return rows.drop(QUESTION).with_columns(owner)


def _settled_above(versions: PointVersions, questions: Questions) -> np.ndarray:
    """For each (key, point), the point before the next row above it that does not change; GREATEST if there is none."""
    ends = np.full(len(questions.points), GREATEST)
    below_greatest = np.flatnonzero(questions.points < GREATEST)
    neighbours = versions.settled.nearest(
        replace(questions[below_greatest], points=questions.points[below_greatest] + 1), above=True
    )
    if neighbours.height:
        ends[below_greatest[neighbours[QUESTION].to_numpy()]] = neighbours[POINT].to_numpy() - 1
    return ends


def _before_next(key: np.ndarray, point: np.ndarray) -> np.ndarray:
    """For each partner change, the point before the next one of the same key; GREATEST if there is none."""
    last = np.full(len(key), GREATEST)
    place = np.cumsum(_opens(key, point))
    following = np.searchsorted(place, place, side="right")
    inside = np.flatnonzero(following < len(key))
    same = inside[key[following[inside]] == key[inside]]
    last[same] = point[following[same]] - 1
    return last


def _opens(key: np.ndarray, point: np.ndarray) -> np.ndarray:
    """For each partner change, sorted by (key, point), whether it is the first of its pair."""
    opens = np.ones(len(key), np.bool_)
    opens[1:] = (key[1:] != key[:-1]) | (point[1:] != point[:-1])
    return opens


@dataclass(frozen=True)
class Lifespans:
    """Spans of rows of A, sorted by (key, point), in which the multiplicity of a row is constant and not 0."""

    rows: pl.DataFrame
    alive: AliveIndex

    @staticmethod
    def of(held: pl.DataFrame, changes: pl.DataFrame, row: Sequence[str], states: KeyStates) -> Lifespans:
        """The lifespans of the rows `held` before the move, under changes. The multiplicity of a row that was present
        before but is not in `held` is off by a constant."""
        names = [*row, KEY, POINT, WEIGHT, FROM]
        events = changes.select(names)
        if held.height:
            before = held.with_columns(pl.lit(BEGINNING - 1, pl.Int64).alias(FROM)).select(names)
            events = pl.concat([before, events])
        ordered = events.with_columns(first_equal(events, row).alias(_ROW)).sort(_ROW, FROM)
        total = pl.col(WEIGHT).cum_sum().over(_ROW)
        until = pl.col(FROM).shift(-1).over(_ROW).fill_null(FOREVER).alias(_UNTIL)
        spans = ordered.with_columns(total, until).filter(pl.col(WEIGHT) != 0).sort(KEY, POINT)
        key, start, end = (spans[name].to_numpy() for name in (KEY, FROM, _UNTIL))
        return Lifespans(spans, AliveIndex.of(states.at(key, start), states.at(key, end)))

    def concerned(self, changes: PartnerChanges) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of a partner change and a row that it concerns and that is present before it."""
        keys, points = self.rows[KEY].to_numpy(), self.rows[POINT].to_numpy()
        begin, end = np.searchsorted(keys, changes.key), np.searchsorted(keys, changes.key, side="right")
        low = first_at_least(points, begin, end, changes.point)
        return self.alive.within(changes.state - 1, low, first_above(points, begin, end, changes.last))
