"""Reach: on how many rows around a row its OVER values depend. It shows which rows of a partition a change may affect.

Only calls whose frames are limited numbers of rows have a reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.ranking.timeline import Differences, Timeline
from operators.ranking.window_call import WindowCall

_SHIFTS = {"lag": -1, "lead": 1}
_FRAMED = frozenset({"sum", "count", "avg", "min", "max", "first_value", "last_value", "nth_value"})
#: How many rows before a row, and how many rows after it, its values depend on.
Reach = tuple[int, int]


def reach_of(calls: Sequence[WindowCall]) -> Reach | None:
    """Returns the reach of all calls together; None if a value may depend on a whole partition, or their orders differ.

    >>> import pyarrow as pa
    >>> call = WindowCall("s", "sum", ("a",), pa.int64(), frame="rows", start=-2, end=1)
    >>> reach_of([call, WindowCall("l", "lag", ("a",), pa.int64(), parameters=(5,))])
    (5, 1)
    >>> reach_of([WindowCall("r", "rank", (), pa.int64())]) is None
    True
    """
    ends = [_ends(call) for call in calls]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends) or len({call.order for call in calls}) > 1:
        return None
    return max(0, *(-low for low, _ in known)), max(0, *(high for _, high in known))


def _ends(call: WindowCall) -> tuple[int, int] | None:
    """Returns the offsets of the first and the last row on which a row's value depends; None if they are unbounded."""
    if call.function in _SHIFTS:
        if call.ignore_nulls:
            return None
        offset = _SHIFTS[call.function] * int(str((*call.parameters, 1)[0]))
        return offset, offset
    if call.function in _FRAMED and call.frame == "rows" and call.start is not None and call.end is not None:
        return int(call.start), int(call.end)
    return None


@dataclass(frozen=True)
class Touched:
    """Presences near a change. A presence is a pair (phase, copy) of a copy and a phase of a Timeline in which the copy
    is present. Presences of the same `run` are adjacent in the order of the rows.

    A presence is `after` a change if the copy was absent, or may have had another value, in the previous phase; it is
    `before` a change if the copy is absent, or may have another value, in the next phase. If a copy is present in two
    consecutive phases, its earlier presence is `before` a change exactly if its later one is `after` a change. The
    presences that are neither are needed to evaluate the others.
    """

    phase: np.ndarray
    copy: np.ndarray
    run: np.ndarray
    after: np.ndarray
    before: np.ndarray

    @staticmethod
    def of(line: Timeline, weights: np.ndarray, places: np.ndarray, reach: Reach) -> Touched:
        """Returns the presences within reach of a change. Copy i counts `weights[i]` times, and has the place
        `places[i]` in the order of the rows.

        A copy that enters or leaves affects the rows that have it within their reach: `following` rows before it and
        `preceding` rows after it. To evaluate these, the rows within their own reach are needed as well.
        """
        preceding, following = reach
        phase, copy = line.presences()
        phase, copy = np.repeat(phase, weights[copy]), np.repeat(copy, weights[copy])
        sorting = np.argsort((phase << len(places).bit_length()) | places[copy], kind="stable")
        firsts = np.concatenate([[0], np.cumsum(np.bincount(phase, minlength=line.size))])
        enters = (phase == line.starts[copy]) & ~line.before[phase]
        leaves = (phase == line.ends[copy] - 1) & ~np.append(line.before[1:], True)[phase]
        after = _near_flagged(enters, phase, sorting, firsts, (following, preceding))
        before = _near_flagged(leaves, phase, sorting, firsts, (following, preceding))
        later = np.flatnonzero(phase > line.starts[copy])
        earlier = later - weights[copy[later]]
        after[later] = before[earlier] = after[later] | before[earlier]
        wanted = _near_flagged(after | before, phase, sorting, firsts, reach)[sorting]
        kept, at = sorting[wanted], np.flatnonzero(wanted)
        opens = np.diff(at, prepend=-2) != 1
        opens[1:] |= phase[kept[1:]] != phase[kept[:-1]]
        return Touched(phase[kept], copy[kept], np.cumsum(opens), after[kept], before[kept])

    def differences(self, codes: np.ndarray) -> Differences:
        """Returns the changes from each phase to the next: presences after a change enter, those before it leave.
        `codes` has a number for each presence; equal numbers mean equal rows with equal values, which cancel.

        >>> yes, no = np.array([True]), np.array([False])
        >>> both = Touched(np.array([1, 2]), np.array([0, 0]), np.array([0, 1]), np.append(no, yes), np.append(yes, no))
        >>> [part.tolist() for part in vars(both.differences(np.array([7, 8]))).values()]
        [[2, 2], [1, -1], [1, 0]]
        """
        enter, leave = np.flatnonzero(self.after), np.flatnonzero(self.before)
        example = np.concatenate([enter, leave])
        phase = np.concatenate([self.phase[enter], self.phase[leave] + 1])
        weight = np.repeat([1, -1], [len(enter), len(leave)])
        listed = pl.DataFrame({"phase": phase, "code": codes[example], "weight": weight, "example": example})
        summed = listed.group_by("phase", "code", maintain_order=True).agg(
            pl.col("weight").sum(), pl.col("example").first()
        )
        changed = summed.filter(pl.col("weight") != 0)
        return Differences(*(changed[name].to_numpy() for name in ("phase", "weight", "example")))


def _near_flagged(
    flags: np.ndarray, phase: np.ndarray, sorting: np.ndarray, firsts: np.ndarray, reach: Reach
) -> np.ndarray:
    """Returns, for each presence, whether it is near a flagged one of its phase: from `reach[0]` positions before the
    flagged one to `reach[1]` after it, in the order `sorting`. `firsts` has the position of each phase's first presence
    in this order.
    """
    at = np.flatnonzero(flags[sorting])
    cells = phase[sorting[at]]
    # Each flagged position covers [low, high), cut at its phase's ends. A position is covered if more ranges began than
    # ended: low [0 1] and high [2 4] give the running sums [1 2 1 1 0].
    low = np.maximum(at - reach[0], firsts[cells])
    high = np.minimum(at + reach[1] + 1, firsts[cells + 1])
    size = len(phase) + 1
    near = np.cumsum(np.bincount(low, minlength=size) - np.bincount(high, minlength=size))[:-1] > 0
    flagged = np.empty(len(phase), np.bool_)
    flagged[sorting] = near
    return flagged
