"""PointVersions: the rows of a relation over a move, where of a key and point there is at most one at an instant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FROM, ORDER, WEIGHT, Delta
from operators.kernels.points import LEAST, first_above
from operators.state.alive_items import Alive
from operators.state.key_states import KeyStates
from operators.state.range_trace import POINT, QUESTION, Questions, RangeTrace

#: The number of the key of a row.
KEY = "__key"


@dataclass(frozen=True)
class PointVersions:
    """`rows` are changes with KEY, sorted by (key, point, instant, weight). A place is a pair of key and point that
    changes. Version v is the row `made[v]`, there in the states `start[v] ≤ state < end[v]` of its key. `settled` holds
    the rows at all other places, which do not change.
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
        """The versions under changes with HASH, POINT and KEY; `held` are the rows before the move."""
        rows = changes.sort(KEY, POINT, FROM, WEIGHT)
        key, point, at, weight = (rows[name].to_numpy() for name in (KEY, POINT, FROM, WEIGHT))
        assert (np.abs(weight) == 1).all(), "of a key and point there is at most one row"
        opens = np.ones(len(key), np.bool_)
        opens[1:] = (key[1:] != key[:-1]) | (point[1:] != point[:-1])
        states = KeyStates.of(key, at)
        state, beyond = states.at(key, at), states.last(key) + 1
        until = np.where(np.append(opens[1:], True)[: len(key)], beyond, np.append(state[1:], 0)[: len(key)])
        made = np.flatnonzero((weight > 0) | opens)
        taken = weight[made] < 0
        settled = held.append(Delta(rows[made[taken]].drop(KEY)), frontier)
        start = np.where(taken, states.at(key, np.full(len(key), BEGINNING - 1))[made], state[made])
        return PointVersions(rows, states, opens, made, start, np.where(taken, state[made], until[made]), settled)

    def kept(self, frontier: int) -> RangeTrace:
        """The rows after the move."""
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
    def alive(self) -> Alive:
        """When each version is there."""
        return Alive.of(self.start, self.end)

    def at_or_below(self, keys: np.ndarray, points: np.ndarray, states: np.ndarray) -> np.ndarray:
        """In each state the version of a key with the greatest point at or below a point; -1 where there is none."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        found = self.alive.last(states, first_above(self.points, begin, end, points) - 1)
        return np.where(found >= begin, found, -1)

    def above(self, keys: np.ndarray, points: np.ndarray, states: np.ndarray) -> np.ndarray:
        """In each state the version of a key with the least point above a point; the number of versions for none."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        found = self.alive.first(states, first_above(self.points, begin, end, points))
        return np.where(found < end, found, len(self.made))

    def nearest(self, questions: Questions, keys: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, pl.DataFrame]:
        """In each state the row of a key with the greatest point at or below a point: its place in the frame that is
        given too, -1 where there is none."""
        floor = self.settled.nearest(questions)
        number, height = np.full(len(keys), -1), np.full(len(keys), LEAST)
        version = self.at_or_below(keys, questions.points, states)
        made = self.rows[self.made]
        if not floor.height:
            return version, made
        asked = floor[QUESTION].to_numpy()
        number[asked] = np.arange(floor.height) + made.height
        height[asked] = floor[POINT].to_numpy()
        if not made.height:
            return number, floor
        higher = (version >= 0) & ((number < 0) | (self.points[version] > height))
        names = [name for name in made.columns if name in floor.columns and name != QUESTION]
        return np.where(higher, version, number), pl.concat([made.select(names), floor.select(names)])

    def orders_of_new(self, versions: np.ndarray, instants: np.ndarray) -> np.ndarray:
        """The order of each version that begins at the instant, the least one for all others."""
        at = np.flatnonzero((versions >= 0) & (versions < len(self.made)))
        made = self.made[versions[at]]
        new = (self.rows[FROM].to_numpy()[made] == instants[at]) & (self.rows[WEIGHT].to_numpy()[made] > 0)
        orders = np.full(len(versions), LEAST)
        orders[at[new]] = self.rows[ORDER].to_numpy()[made[new]]
        return orders
