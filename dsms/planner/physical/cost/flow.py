"""The flow of rows between two operators of a dataflow: a stream of elements, and their representation as rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from dsms.planner.physical.cost.characteristics import Characteristics


@dataclass(frozen=True, slots=True)
class Flow:
    """The elements of a stream as rows.

    If `changes`, the end of an element is a row of its own (a retraction). If `lasting`, no element has ended so far.
    `age` is the number of instants since the first input; no element is longer.

    >>> Flow(Characteristics(10, 100), age=1e6, changes=True).rows
    0.2
    """

    stream: Characteristics
    age: float
    changes: bool = False
    lasting: bool = False

    @property
    def rows_an_element(self) -> int:
        """The number of rows of one element."""
        return 2 if self.changes and not self.lasting else 1

    @property
    def rows(self) -> float:
        """Rows per instant."""
        return self.stream.rate * self.rows_an_element

    def of(self, stream: Characteristics) -> Flow:
        """Another stream, represented in the same way."""
        return replace(self, stream=replace(stream, length=min(stream.length, self.age)))

    def ending(self, stream: Characteristics, *, changes: bool) -> Flow:
        """A stream whose elements end; no element is longer than the age."""
        return replace(self, changes=changes, lasting=False).of(stream)

    def forever(self) -> Flow:
        """The flow whose elements start at the same instants but do not end."""
        return replace(self, stream=replace(self.stream, length=self.age), changes=False, lasting=True)


class VertexMeasurements(NamedTuple):
    """Measurements of a vertex."""

    #: Rows out per row in.
    selectivity: float | None = None
    #: The rows of its state.
    state_rows: int = 0
    #: Of a source: the instants between two rows, and the number of its rows.
    gap: float | None = None
    rows: int = 0
    #: Of a window with a range of sizes: the fraction of the range to assume.
    fraction: float = 1.0
    #: Of a join: the number of distinct keys that each side holds.
    keys: tuple[float, ...] = ()
    #: Of a join: the fraction of the pairs that pass. It replaces `selectivity` if windows differ from the measured
    #: ones.
    passing: float | None = None


class Expected(NamedTuple):
    """The expected output of an operator, the rows of its state, and for a join the fraction of the pairs that pass."""

    flow: Flow
    state_rows: float = 0.0
    passing: float | None = None
