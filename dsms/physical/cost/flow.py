"""The flow of rows between two operators of a dataflow: a stream of elements, and how the engine represents them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from dsms.physical.cost.characteristics import Characteristics


@dataclass(frozen=True, slots=True)
class Flow:
    """Elements of a stream as rows. The end of an element is a row of its own after operators that give `changes`. What
    is `lasting` has not ended so far. There has been input for `age` instants, so nothing is longer.

    >>> Flow(Characteristics(10, 100), age=1e6, changes=True).rows
    0.2
    """

    stream: Characteristics
    age: float
    changes: bool = False
    lasting: bool = False

    @property
    def rows_an_element(self) -> int:
        """The rows of one element."""
        return 2 if self.changes and not self.lasting else 1

    @property
    def rows(self) -> float:
        """Rows per instant."""
        return self.stream.rate * self.rows_an_element

    def of(self, stream: Characteristics) -> Flow:
        """Another stream in the same representation."""
        return replace(self, stream=replace(stream, length=min(stream.length, self.age)))

    def ending(self, stream: Characteristics, *, changes: bool) -> Flow:
        """A stream whose elements end, if it has been there for long enough."""
        return replace(self, changes=changes, lasting=False).of(stream)

    def forever(self) -> Flow:
        """The same starts without ends."""
        return replace(self, stream=replace(self.stream, length=self.age), changes=False, lasting=True)


class Known(NamedTuple):
    """What was measured of a vertex: rows out per row in, the rows of its state, and of a source the instants between
    two rows and the number of its rows; of a window with a range of sizes the fraction of it to look at, and of a join
    the different keys that each side holds, or the part of the pairs that pass, which takes the place of rows out per
    row in where windows differ from those that were measured."""

    selectivity: float | None = None
    state_rows: int = 0
    gap: float | None = None
    rows: int = 0
    fraction: float = 1.0
    keys: tuple[float, ...] = ()
    passing: float | None = None


class Expected(NamedTuple):
    """The output of an operator, and the rows that it keeps; of a join the part of the pairs that pass."""

    flow: Flow
    state_rows: float = 0.0
    passing: float | None = None
