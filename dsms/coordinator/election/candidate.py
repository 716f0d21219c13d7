"""Who leads, by a lease that all candidates see: a pure decision, in the clock of the one who decides.

The law: at most one leads. A holder counts from *before* it sent its last word, and stops after `renew_s`; the others
count from *after* they saw that word, and wait for `lease_s`, which is longer. So clocks need not agree, only run
equally fast, and a candidate that was stopped for a while knows when it wakes that it leads no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.kubernetes import Lease
from operators.core.errors import ConfigError


@dataclass(frozen=True)
class Timing:
    """For how long a word counts for the others and for the holder, and the pause between two tries.

    >>> Timing(4, 6, 1)
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: a lease of 4 s must be longer than its renewal of 6 s, ...
    """

    lease_s: int = 5
    renew_s: float = 3.0
    retry_s: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_s < self.lease_s:
            raise ConfigError(
                f"a lease of {self.lease_s:g} s must be longer than its renewal of {self.renew_s:g} s, "
                f"and that than the pause of {self.retry_s:g} s"
            )


@dataclass(frozen=True)
class Candidate:
    """What one candidate knows: the lease as last seen, since when it stands so, and until when it leads itself.

    `me` is a name that nobody ever had before: a process started anew is another candidate.
    """

    me: str
    timing: Timing = Timing()
    seen: Lease | None = None
    since: float = 0.0
    leads_until: float | None = None

    def leads(self, now: float) -> bool:
        """Whether nobody else can lead."""
        return self.leads_until is not None and now < self.leads_until

    def saw(self, lease: Lease | None, now: float) -> Candidate:
        """After the lease was read, at the latest now.

        >>> Candidate("a").saw(Lease("b", 6, 1, "7"), 10.0).saw(Lease("b", 6, 1, "7"), 12.0).since
        10.0
        """
        if lease == self.seen:
            return self
        mine = lease is not None and lease.holder == self.me
        return replace(self, seen=lease, since=now, leads_until=self.leads_until if mine else None)

    def wrote(self, lease: Lease, began: float) -> Candidate:
        """After the lease was written, at the earliest when the call began."""
        until = began + self.timing.renew_s if lease.holder == self.me else None
        return replace(self, seen=lease, since=began, leads_until=until)

    def wants(self, now: float) -> Lease | None:
        """The lease to write: to renew it, or to take it when it is free; None: wait. One that is still in our name was
        nobody else's in between, however late we are.

        >>> held = Candidate("a", Timing(6, 4, 1)).saw(Lease("b", 6, 1, "7"), 10.0)
        >>> held.wants(15.9), held.wants(16.0)
        (None, Lease(holder='a', seconds=6, transitions=2, version='7'))
        """
        seen = self.seen or Lease()
        if seen.holder == self.me:
            return replace(seen, seconds=self.timing.lease_s)
        if seen.holder and now < self.since + seen.seconds:
            return None
        return Lease(self.me, self.timing.lease_s, seen.transitions + 1, seen.version)

    def leaves(self, now: float) -> Lease | None:
        """The lease to write at the end, so that nobody has to wait; None when there is nothing to give up."""
        if self.seen is None or not self.leads(now):
            return None
        return Lease("", 1, self.seen.transitions, self.seen.version)
