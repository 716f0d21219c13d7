"""Timelines: which copies of rows partitions contain at each instant at which they change, for all instants at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import FOREVER
from operators.state.copies import ARRIVAL, BIRTH, DEATH, DEPARTURE, HELD


@dataclass(frozen=True)
class Timeline:
    """Consecutively numbered phases: for each group, one before the step and one from each instant at which it changes.

    Copy i is present in the phases `starts[i] ≤ phase < ends[i]`. `instants` and `orders` have the instant and the
    greatest order of the changes at each phase; `before` marks the phases before the step.
    """

    starts: np.ndarray
    ends: np.ndarray
    instants: np.ndarray
    orders: np.ndarray
    before: np.ndarray

    @staticmethod
    def of(copies: pl.DataFrame, groups: np.ndarray) -> Timeline:
        """Returns the timeline of copies whose groups are numbered from 0.

        >>> names = ["__birth", "__death", "__arrival", "__departure"]
        >>> copies = pl.DataFrame([(3, 5, 1, 2), (5, FOREVER, 3, 0)], schema=names, orient="row")
        >>> line = Timeline.of(copies, np.array([0, 0]))
        >>> line.starts.tolist(), line.ends.tolist(), line.instants[1:].tolist(), line.orders[1:].tolist()
        ([1, 2], [2, 3], [3, 5], [1, 3])
        """
        births, deaths = copies[BIRTH].to_numpy(), copies[DEATH].to_numpy()
        moments, ranked = np.unique(np.concatenate([[HELD], births, deaths, [FOREVER]]), return_inverse=True)
        # A phase has the code group · size + (rank of its instant): with the moments HELD, 3, 5, FOREVER, group 1 has
        # the codes 4 (before the step), 5 and 6. Only codes at which the group changes become phases.
        size = len(moments)
        born, died = ranked[1 : len(births) + 1], ranked[len(births) + 1 : -1]
        # A held copy starts at its group's first code; a copy that stays ends before the next group's first code.
        starts, ends = groups * size + born, groups * size + died
        wanted = np.concatenate([groups * size, starts, ends[deaths < FOREVER]])
        phases = _distinct(wanted)
        instants = moments[phases % size]
        orders = np.zeros(len(phases), np.int64)
        before = phases % size == 0
        enter, leave = births > HELD, deaths < FOREVER
        first, end = np.searchsorted(phases, starts), np.searchsorted(phases, ends)
        caused = np.concatenate([first[enter], end[leave]])
        by = np.concatenate([copies[ARRIVAL].to_numpy()[enter], copies[DEPARTURE].to_numpy()[leave]])
        orders[caused] = np.iinfo(np.int64).min
        np.maximum.at(orders, caused, by)
        return Timeline(first, end, instants, orders, before)

    @property
    def size(self) -> int:
        """The number of phases."""
        return len(self.instants)

    def presences(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all pairs (phase, copy) where the copy is present in the phase, as two arrays, copy after copy."""
        lengths = self.ends - self.starts
        copy = np.repeat(np.arange(len(lengths)), lengths)
        # starts [1 4] and lengths [2 3] give the phases [1 2 | 4 5 6].
        phase = np.arange(len(copy)) + np.repeat(self.starts - (np.cumsum(lengths) - lengths), lengths)
        return phase, copy

    def differences(self, phases: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Differences:
        """Returns the changes from each phase to the next of its group. Entry i says that phase `phases[i]` contains
        the code `codes[i]` ≥ 0 `weights[i]` times.

        A code occurs in the phases of a single group only.

        >>> none, before = np.array([]), np.array([True, False, False])
        >>> line = Timeline(none, none, np.array([0, 3, 5]), np.zeros(3), before)
        >>> changed = line.differences(np.array([0, 1, 1]), np.array([7, 7, 8]), np.array([1, 1, 1]))
        >>> [part.tolist() for part in (changed.phases, changed.weights, changed.examples)]
        [[1, 2, 2], [1, -1, -1], [2, 1, 2]]
        """
        if not len(phases):
            return Differences(phases, weights, phases)
        order, starts = _sorted_pairs(codes, phases, self.size)
        example = order[starts]
        code, phase = codes[example], phases[example]
        weight = np.add.reduceat(weights[order], starts)
        follows = np.zeros(len(phase), np.bool_)
        follows[1:] = (code[1:] == code[:-1]) & (phase[1:] == phase[:-1] + 1)
        risen = weight - np.where(follows, np.concatenate([[0], weight[:-1]]), 0)
        enters = ~self.before[phase] & (risen != 0)
        last = np.append(self.before[1:], True)
        leaves = ~np.append(follows[1:], False) & ~last[phase]
        return Differences(
            np.concatenate([phase[enters], phase[leaves] + 1]),
            np.concatenate([risen[enters], -weight[leaves]]),
            np.concatenate([example[enters], example[leaves]]),
        )


@dataclass(frozen=True)
class Differences:
    """Changes: the phase and the weight of each change, and the index of an entry with the code that changes."""

    phases: np.ndarray
    weights: np.ndarray
    examples: np.ndarray


def _sorted_pairs(codes: np.ndarray, phases: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices that sort entries by (code, phase), and where equal entries begin in that order."""
    if int(codes.max()) >= 2**62 // max(size, 1):
        codes = np.unique(codes, return_inverse=True)[1]
    pairs = codes * size + phases
    order = np.argsort(pairs)
    ordered = pairs[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _distinct(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    distinct: np.ndarray = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
    return distinct
