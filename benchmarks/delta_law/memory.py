"""Memory of a sliding count: the state contains the groups of each slide of the window, not its rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from benchmarks.delta_law.flow import Flow, Input, state_bytes
from benchmarks.delta_law.measuring import loaded
from benchmarks.delta_law.windows import WindowedGroups
from operators.core.delta import Delta
from operators.grouping.group_by import GroupBy
from operators.streams.retract_ends import RetractEnds
from operators.windows.time_window import TimeWindow

WINDOW = 100_000
#: Lengths of a slide, in each of which every key occurs many times.
SLIDES = (100, 1_000, 10_000, 50_000)
GROUPS = 100
_UNUSED = ("i", "v")


@dataclass(frozen=True, slots=True)
class Footprint:
    """The greatest number of bytes of all runs just after the end of a slide, and just before the end of the next one.

    In between, the rows of the current slide wait for its end.
    """

    slides: int
    at_slide: int
    between: int


def footprint(slide: int) -> Footprint:
    """Fills a window; returns the peaks of its state while time advances by the length of one more window."""
    window = SlidingCount(WINDOW, slide, groups=GROUPS)
    traces = loaded(window)
    at_slide, between = 0, 0
    while window.now < 2 * WINDOW:
        for until in (window.now + slide - 1, window.now + slide):
            _, traces = window.flow.step(window.upto(until), traces)
            if until % slide == 1:
                at_slide = max(at_slide, state_bytes(traces))
            else:
                between = max(between, state_bytes(traces))
    return Footprint(WINDOW // slide, at_slide, between)


class SlidingCount(WindowedGroups):
    """Counts by key in a sliding window. Rows have only the key."""

    @property
    def flow(self) -> Flow:
        """The window, retractions at the ends of rows, and the group-by."""
        keys = pa.schema([("k", pa.int64())])
        return Flow((RetractEnds(), GroupBy(("k",), self.aggregates[:1], keys)), TimeWindow(self.length, self.slide))

    def upto(self, end: int) -> Input:
        """The rows of the instants up to `end`."""
        given = super().upto(end)
        return Input(tuple(Delta(delta.frame.drop(_UNUSED)) for delta in given.deltas), given.move)
