"""The spans of time in which levels have requested ranks, and the rows that enter and leave with the levels.

A level is the rows of a group that tie in its order; a phase of a group begins at an instant at which the group
changes. Nodes number the states of groups: for each group the state before the step, then the state from each of its
phases on. For groups with the phases [0 1] and [2] the nodes are [before 0 1] = [0 1 2] and [before 2] = [3 4]: phase c
of group g is node c + g + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.kernels.phases import Phases

#: The rank of a level that is kept in the state although it is not requested.
NOT_REQUESTED = -1


@dataclass(frozen=True)
class Nodes:
    """The nodes of phases: their instants and orders, and for each group its first node, `before` the step, and the end
    of its nodes (`behind` the last one)."""

    instant: np.ndarray
    order: np.ndarray
    before: np.ndarray
    end: np.ndarray

    @staticmethod
    def of(phases: Phases) -> Nodes:
        """Returns the nodes of phases."""
        place = np.arange(phases.size) + phases.group + 1
        groups = np.arange(phases.group_count)
        instant, order = np.zeros((2, phases.size + phases.group_count), np.int64)
        instant[place], order[place] = phases.instant, phases.order
        return Nodes(instant, order, phases.first + groups, phases.last + groups + 2)


@dataclass(frozen=True)
class LevelSpans:
    """Spans, sorted by (level, start): level `level[i]` is requested, with the rank `above[i]` from 0, in the nodes
    `start[i] ≤ node < end[i]`. `group` has the group of each level.
    """

    nodes: Nodes
    group: np.ndarray
    level: np.ndarray
    start: np.ndarray
    end: np.ndarray
    above: np.ndarray

    @staticmethod
    def of(phases: Phases, group: np.ndarray, level: np.ndarray, node: np.ndarray, above: np.ndarray) -> LevelSpans:
        """Joins entries (level, node, rank) of adjacent nodes to the longest spans."""
        order = np.lexsort((node, level))
        level, node, above = level[order], node[order], above[order]
        opens = np.ones(len(level), np.bool_)
        opens[1:] = (np.diff(level) != 0) | (np.diff(node) != 1) | (np.diff(above) != 0)
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(level)).astype(np.int64)[: len(first)] - 1
        return LevelSpans(Nodes.of(phases), group, level[first], node[first], node[last] + 1, above[first])

    @property
    def moves(self) -> np.ndarray:
        """Whether each span begins or ends within the step."""
        group = self.group[self.level]
        moves: np.ndarray = (self.start > self.nodes.before[group]) | (self.end < self.nodes.end[group])
        return moves

    def at_end(self, levels: np.ndarray) -> np.ndarray:
        """Returns for each of the levels whether it has a span at the end of the step."""
        return np.isin(levels, self.level[self.end == self.nodes.end[self.group[self.level]]])

    def overlapping(self, level: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs (given span, own span of the same level) that have a node in common, as two arrays."""
        # Own spans are disjoint, and therefore sorted both by (level, start) and by (level, end). So the own spans that
        # overlap a given one are adjacent: from the first that ends after its start to the last that starts before its
        # end.
        size = len(self.nodes.instant) + 1
        low = np.searchsorted(self.level * size + self.end, level * size + start, side="right")
        high = np.searchsorted(self.level * size + self.start, level * size + end, side="left")
        counts = np.maximum(high - low, 0)
        given = np.repeat(np.arange(len(level)), counts)
        return given, np.arange(len(given)) - np.repeat(np.cumsum(counts) - counts, counts) + low[given]


@dataclass(frozen=True)
class Changed:
    """Changes of rows: for each change the index of its row in `rows`, its rank from 0, instant, order and weight."""

    rows: pl.DataFrame
    row: np.ndarray
    above: np.ndarray
    instant: np.ndarray
    order: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class RowSpans:
    """Row `row[i]` of `rows`, of level `level[i]`, is present `weight[i]` times in the nodes
    `start[i] ≤ node < end[i]`.

    The rows of a level whose rank does not change are not read; their weights here are relative to the state before
    the step.
    """

    rows: pl.DataFrame
    row: np.ndarray
    level: np.ndarray
    start: np.ndarray
    end: np.ndarray
    weight: np.ndarray

    @staticmethod
    def of(
        level_spans: LevelSpans,
        rows: pl.DataFrame,
        row: np.ndarray,
        level: np.ndarray,
        phase: np.ndarray,
        weight: np.ndarray,
    ) -> RowSpans:
        """Returns the spans of rows that change in phases; phase -1 is the state before the step."""
        nodes, group = level_spans.nodes, level_spans.group[level]
        node = np.where(phase < 0, nodes.before[group], phase + group + 1)
        order = np.lexsort((node, row))
        row, level, node, weight = row[order], level[order], node[order], weight[order]
        opens = np.diff(row, prepend=-1) != 0
        running = np.cumsum(weight)
        base = (running - weight)[opens][np.cumsum(opens) - 1]
        end = np.where(
            np.append(opens[1:], True)[: len(row)], nodes.end[level_spans.group[level]], np.append(node[1:], 0)
        )
        alive = running != base
        return RowSpans(rows, *(values[alive] for values in (row, level, node, end, running - base)))

    def during(self, level_spans: LevelSpans) -> Changed:
        """Returns the rows that enter and leave while their levels are requested, or together with their levels."""
        given, span = level_spans.overlapping(self.level, self.start, self.end)
        requested = level_spans.above[span] != NOT_REQUESTED
        given, span = given[requested], span[requested]
        group = level_spans.group[self.level[given]]
        entered = np.maximum(self.start[given], level_spans.start[span])
        left = np.minimum(self.end[given], level_spans.end[span])
        enters, leaves = entered > level_spans.nodes.before[group], left < level_spans.nodes.end[group]
        row = np.concatenate([self.row[given][enters], self.row[given][leaves]])
        above = np.concatenate([level_spans.above[span][enters], level_spans.above[span][leaves]])
        node = np.concatenate([entered[enters], left[leaves]])
        weight = np.concatenate([self.weight[given][enters], -self.weight[given][leaves]])
        row, above, node, weight = _added_up(row, above, node, weight)
        return Changed(self.rows, row, above, level_spans.nodes.instant[node], level_spans.nodes.order[node], weight)


def _added_up(
    row: np.ndarray, above: np.ndarray, node: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Adds up entries of equal (row, rank, node) and drops zeros."""
    order = np.lexsort((above, row, node))
    row, above, node, weight = row[order], above[order], node[order], weight[order]
    opens = np.ones(len(row), np.bool_)
    opens[1:] = (np.diff(row) != 0) | (np.diff(above) != 0) | (np.diff(node) != 0)
    starts = np.flatnonzero(opens)
    sums = np.add.reduceat(weight, starts) if len(starts) else weight
    stays = sums != 0
    kept = starts[stays]
    return row[kept], above[kept], node[kept], sums[stays]
