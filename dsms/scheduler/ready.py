"""What a scheduler chooses from, and what it remembers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.scheduler.progress_chart import Path, remaining
from operators.core.errors import InternalError

#: Names a queue. Its parts mean nothing here; keys of one scheduler are comparable, which gives them a fixed order.
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """A queue in which something waits before an operator of a path.

    `oldest_s` is when the input arrived that its head comes from. `owner` is whom the work is for: a query, or the
    queries of a lane together, whose weight is then the sum of theirs.
    """

    key: Key
    path: Path
    #: Which operator of the path, from 0 on.
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
        """Seconds a unit, at its operator."""
        return self.path[self.operator].cost

    @property
    def work_s(self) -> float:
        """Seconds until all that waits has left the system."""
        return self.size * remaining(self.path)[self.operator]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a batch is decided, and the seconds of work that it may hold."""

    now_s: float
    budget_s: float


@dataclass(frozen=True, slots=True)
class Past:
    """What all policies remember together, so that one can follow another while running: the queue that was served
    last, and received service.

    Service is a *tag* for each owner: seconds of service by weight. An owner that was away begins at the tag of who was
    served last: it is owed nothing for the time it had nothing to do. So only the tags above that are kept.

    >>> from dsms.scheduler.progress_chart import Operator
    >>> line = Ready(("a",), (Operator(1, 1),), 0, 1, 0.0, owner="a", weight=2)
    >>> Past().after(line, 3).tag("a"), Past().after(line, 3).tag("b")
    (1.5, 0.0)
    """

    last: Key | None = None
    #: The tag at which who was served last began.
    least: float = 0.0
    ahead: Mapping[str, float] = field(default_factory=dict)

    def tag(self, owner: str) -> float:
        """The service by weight of an owner."""
        return max(self.ahead.get(owner, self.least), self.least)

    def after(self, ready: Ready, seconds: float) -> Past:
        """The past after a queue was served for so long."""
        begun = self.tag(ready.owner)
        ahead = {**self.ahead, ready.owner: begun + seconds / ready.weight}
        return Past(ready.key, begun, {owner: tag for owner, tag in ahead.items() if tag > begun})
