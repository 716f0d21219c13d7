"""Decides which candidate leads, by a lease that all of them read. The decision is pure and uses the clock of the
candidate that decides.

The law: at most one candidate leads. The holder measures from *before* it sent its last renewal, and stops leading
after `renew_s`; the others measure from *after* they read that renewal, and wait for `lease_s`, which is longer. So
clocks need not agree, only run equally fast, and a candidate that was suspended for a while knows when it wakes that it
no longer leads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.kubernetes import Lease
from operators.core.errors import ConfigError


@dataclass(frozen=True)
class Timing:
    """How long a renewal is valid for the other candidates (`lease_s`) and for the holder itself (`renew_s`), and the
    pause between two attempts.

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
                f"and the renewal longer than the pause of {self.retry_s:g} s"
            )


@dataclass(frozen=True)
class Candidate:
    """The knowledge of a candidate: the lease as last read, the time since which the lease is unchanged, and the time
    until which the candidate itself leads, in seconds of its own clock.

    `me` is a name that no other candidate ever had: a restarted process is another candidate.
    """

    me: str
    timing: Timing = Timing()
    seen: Lease | None = None
    since: float = 0.0
    leads_until: float | None = None

    def leads(self, now: float) -> bool:
        """Whether this candidate leads: nobody else can lead before `leads_until`."""
        return self.leads_until is not None and now < self.leads_until

    def after_read(self, lease: Lease | None, now: float) -> Candidate:
        """The candidate after it read the lease, at `now` or before.

        >>> Candidate("a").after_read(Lease("b", 6, 1, "7"), 10.0).after_read(Lease("b", 6, 1, "7"), 12.0).since
        10.0
        """
        if lease == self.seen:
            return self
        holds_it = lease is not None and lease.holder == self.me
        return replace(self, seen=lease, since=now, leads_until=self.leads_until if holds_it else None)

    def after_write(self, lease: Lease, began: float) -> Candidate:
        """The candidate after it wrote the lease, at `began` or later."""
        until = began + self.timing.renew_s if lease.holder == self.me else None
        return replace(self, seen=lease, since=began, leads_until=until)

    def lease_to_write(self, now: float) -> Lease | None:
        """The lease to write, to renew it or to take it when it is free; None if the candidate has to wait. If the
        lease still has this candidate's name, no other one has held it in between, however late the renewal is.

        >>> held = Candidate("a", Timing(6, 4, 1)).after_read(Lease("b", 6, 1, "7"), 10.0)
        >>> held.lease_to_write(15.9), held.lease_to_write(16.0)
        (None, Lease(holder='a', seconds=6, transitions=2, version='7'))
        """
        seen = self.seen or Lease()
        if seen.holder == self.me:
            return replace(seen, seconds=self.timing.lease_s)
        if seen.holder and now < self.since + seen.seconds:
            return None
        return Lease(self.me, self.timing.lease_s, seen.transitions + 1, seen.version)

    def lease_to_release(self, now: float) -> Lease | None:
        """The lease to write at the end, so that no candidate has to wait until it expires; None for a candidate that
        does not lead."""
        if self.seen is None or not self.leads(now):
            return None
        return Lease("", 1, self.seen.transitions, self.seen.version)
