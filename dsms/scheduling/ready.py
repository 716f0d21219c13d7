"""The queues from which a scheduler chooses, and the history that it remembers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.measurements.progress_chart import Path, remaining
from operators.core.errors import InternalError

#: Identifies a queue. Keys of one scheduler are comparable, which gives them a fixed order.
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ReadyQueue:
    """A queue with input that waits before an operator of a path.

    `oldest_s` is the arrival time of the input from which its head was computed. `owner` is the query, or the queries
    of a lane, for which the work is done; the weight of several queries is the greatest of theirs.
    """

    key: Key
    path: Path
    #: The position of the operator in the path, from 0.
    operator: int
    size: float
    oldest_s: float
    owner: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.operator < len(self.path):
            raise InternalError(f"queue {self.key} is before operator {self.operator} of {len(self.path)}")
        if not (0 < self.size < math.inf and 0 < self.weight < math.inf):
            raise InternalError(f"queue {self.key} cannot have the size {self.size} and the weight {self.weight}")

    @property
    def cost(self) -> float:
        """Seconds per unit, at its operator."""
        return self.path[self.operator].cost

    @property
    def work_s(self) -> float:
        """The seconds of work until all of its input has left the system."""
        return self.size * remaining(self.path)[self.operator]


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which a batch is planned, and its budget in seconds of work."""

    now_s: float
    budget_s: float


@dataclass(frozen=True, slots=True)
class Past:
    """The history that all policies share, so that the policy can be changed at run time: the queue that was served
    last, and the service that each owner has received.

    Service is stored as a *tag* for each owner: seconds of service divided by weight. An owner that was idle starts at
    the tag of the owner that was served last, so idle time gives no advantage. Therefore only greater tags are stored.

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> line = ReadyQueue(("a",), (PathOperator(1, 1),), 0, 1, 0.0, owner="a", weight=2)
    >>> Past().after(line, 3).tag("a"), Past().after(line, 3).tag("b")
    (1.5, 0.0)
    """

    last: Key | None = None
    #: The tag of the owner that was served last, before that service.
    least: float = 0.0
    ahead: Mapping[str, float] = field(default_factory=dict)

    def tag(self, owner: str) -> float:
        """The tag of an owner."""
        return max(self.ahead.get(owner, self.least), self.least)

    def after(self, ready: ReadyQueue, seconds: float) -> Past:
        """The past after a queue was served for some seconds."""
        begun = self.tag(ready.owner)
        ahead = {**self.ahead, ready.owner: begun + seconds / ready.weight}
        return Past(ready.key, begun, {owner: tag for owner, tag in ahead.items() if tag > begun})
