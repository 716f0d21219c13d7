"""PointVersions: the rows of a relation during a move. At any instant there is at most one row of a key and point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FROM, ORDER, WEIGHT, Delta
from operators.kernels.points import LEAST, first_above
from operators.state.alive_items import AliveIndex
from operators.state.key_states import KeyStates
from operators.state.range_trace import POINT, QUESTION, Questions, RangeTrace

#: The number of the key of a row.
KEY = "__key"


@dataclass(frozen=True)
class PointVersions:
    """`rows` are changes with KEY, sorted by (key, point, instant, weight); `opens` marks the first change of each
    (key, point). Version v is the row at index `made[v]`, present in the states `start[v] ≤ state < end[v]` of its key.
    `settled` has the rows whose (key, point) does not change in the move.
    """

    rows: pl.DataFrame
    states: KeyStates
    opens: np.ndarray
    made: np.ndarray
    start: np.ndarray
    end: np.ndarray
    settled: RangeTrace

    @staticmethod
    def of(changes: pl.DataFrame, held: RangeTrace, frontier: int) -> PointVersions:
        """Returns the versions for `changes` with HASH, POINT and KEY; `held` has the rows before the move."""
        rows = changes.sort(KEY, POINT, FROM, WEIGHT)
        key, point, instant, weight = (rows[name].to_numpy() for name in (KEY, POINT, FROM, WEIGHT))
        assert (np.abs(weight) == 1).all(), "a key and point have at most one row"
        opens = np.ones(len(key), np.bool_)
        opens[1:] = (key[1:] != key[:-1]) | (point[1:] != point[:-1])
        states = KeyStates.of(key, instant)
        state, beyond = states.at(key, instant), states.last(key) + 1
        # A version begins at an insertion; or before the first change of its (key, point), if that is a retraction
        # (`taken`). It ends at the next change of its (key, point), or never.
        until = np.where(np.append(opens[1:], True)[: len(key)], beyond, np.append(state[1:], 0)[: len(key)])
        made = np.flatnonzero((weight > 0) | opens)
        taken = weight[made] < 0
        settled = held.append(Delta(rows[made[taken]].drop(KEY)), frontier)
        start = np.where(taken, states.at(key, np.full(len(key), BEGINNING - 1))[made], state[made])
        return PointVersions(rows, states, opens, made, start, np.where(taken, state[made], until[made]), settled)

    def kept(self, frontier: int) -> RangeTrace:
        """Returns the trace of the rows after the move."""
        stays = self.end > self.states.last(self.keys)
        return self.settled.append(Delta(self.rows[self.made[stays]].drop(KEY)), frontier)

    @cached_property
    def keys(self) -> np.ndarray:
        """The key of each version."""
        return np.asarray(self.rows[KEY].to_numpy()[self.made])

    @cached_property
    def points(self) -> np.ndarray:
        """The point of each version."""
        return np.asarray(self.rows[POINT].to_numpy()[self.made])

    @cached_property
    def alive(self) -> AliveIndex:
        """The states in which each version is present."""
        return AliveIndex.of(self.start, self.end)

    def at_or_below(self, keys: np.ndarray, points: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Returns, for each (key, point, state), the present version of the key with the greatest point ≤ point; else
        -1."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        version = self.alive.last(states, first_above(self.points, begin, end, points) - 1)
        return np.where(version >= begin, version, -1)

    def above(self, keys: np.ndarray, points: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Returns, for each (key, point, state), the present version of the key with the least point > point; else the
        number of versions."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        version = self.alive.first(states, first_above(self.points, begin, end, points))
        return np.where(version < end, version, len(self.made))

    def nearest(self, questions: Questions, keys: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, pl.DataFrame]:
        """Finds, for each question and the state of its key, the present row with the greatest point ≤ the question's.

        Returns the index of each answer in a frame of rows, -1 if there is none, and the frame.
        """
        floor = self.settled.nearest(questions)
        place, point = np.full(len(keys), -1), np.full(len(keys), LEAST)
        version = self.at_or_below(keys, questions.points, states)
        made = self.rows[self.made]
        if not floor.height:
            return version, made
        answered = floor[QUESTION].to_numpy()
        place[answered] = np.arange(floor.height) + made.height
        point[answered] = floor[POINT].to_numpy()
        if not made.height:
            return place, floor
        nearer = (version >= 0) & ((place < 0) | (self.points[version] > point))
        names = [name for name in made.columns if name in floor.columns and name != QUESTION]
        return np.where(nearer, version, place), pl.concat([made.select(names), floor.select(names)])

    def orders_of_new(self, versions: np.ndarray, instants: np.ndarray) -> np.ndarray:
        """Returns the order of each version that begins at its instant; LEAST for all others."""
        at = np.flatnonzero((versions >= 0) & (versions < len(self.made)))
        made = self.made[versions[at]]
        new = (self.rows[FROM].to_numpy()[made] == instants[at]) & (self.rows[WEIGHT].to_numpy()[made] > 0)
        orders = np.full(len(versions), LEAST)
        orders[at[new]] = self.rows[ORDER].to_numpy()[made[new]]
        return orders
