"""The two loops of an election: one reads and writes the lease, the other notices in time that leadership has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from connectors.kubernetes import Lease
from dsms.coordinator.election.candidate import Candidate
from operators.core.errors import ExternalError

log = structlog.get_logger()
_GUARD_S = 0.1


class LeaseStore(Protocol):
    """Stores the lease. Both calls return soon. A write fails if the stored lease has another version."""

    def read(self) -> Lease | None: ...
    def write(self, lease: Lease) -> Lease: ...


class Leadership:
    """One candidate's part in the election. `lost` is called when this candidate led and can no longer be sure to lead;
    it must end the process."""

    def __init__(
        self,
        store: LeaseStore,
        candidate: Candidate,
        lost: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._candidate, self._lost, self._clock = store, candidate, lost, clock
        #: Set when this candidate leads.
        self.leading = threading.Event()

    @property
    def holder(self) -> str:
        """The holder of the lease when this candidate last read it; empty if nobody held it."""
        seen = self._candidate.seen
        return seen.holder if seen else ""

    def run(self, ended: threading.Event) -> None:
        """Takes part in the election until `ended` is set, then gives the lease up."""
        guard = threading.Thread(target=self._guard, args=(ended,), name="guard-of-lease")
        guard.start()
        while not ended.is_set():
            self.turn()
            ended.wait(self._candidate.timing.retry_s)
        guard.join()
        self._leave()

    def check(self) -> None:
        """Calls `lost` if this candidate led and no longer leads."""
        if self.leading.is_set() and not self._candidate.leads(self._clock()):
            self._lost(f"the lease is held by {self.holder or 'nobody'}")

    def _guard(self, ended: threading.Event) -> None:
        """Checks in a thread of its own, as a call of the other loop may hang for longer than the lease lasts."""
        while not ended.wait(_GUARD_S):
            self.check()

    def turn(self) -> None:
        """Reads the lease, and renews or takes it if that is due."""
        try:
            self._read_and_write()
        except ExternalError as error:
            log.warning("the lease could not be reached", reason=str(error))
        if not self.leading.is_set() and self._candidate.leads(self._clock()):
            log.info("leading", candidate=self._candidate.me)
            self.leading.set()
        self.check()

    def _read_and_write(self) -> None:
        lease = self._store.read()
        self._candidate = self._candidate.after_read(lease, self._clock())
        began = self._clock()
        wanted = self._candidate.lease_to_write(began)
        if wanted is not None:
            self._candidate = self._candidate.after_write(self._store.write(wanted), began)

    def _leave(self) -> None:
        given_up = self._candidate.lease_to_release(self._clock())
        if given_up is None:
            return
        try:
            self._store.write(given_up)
        except ExternalError as error:
            log.warning("the lease was not given up; it will expire", reason=str(error))
