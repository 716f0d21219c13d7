"""The thread that makes the checkpoints of a fragment. It runs concurrently with the commits and never blocks them."""

from __future__ import annotations

import threading
from typing import Protocol

import msgspec
import structlog

from connectors.kafka.client.config import KafkaSettings
from connectors.objects.store import ObjectStore
from connectors.state.store import RunStore
from dsms.model import properties
from dsms.placement.leases import CheckpointStatus
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.checkpoints.checkpoint import Checkpoint, Needs
from dsms.runtime.checkpoints.making import CheckpointInput, CheckpointMaker
from dsms.runtime.checkpoints.recovery import Recovery
from dsms.runtime.checkpoints.store import CheckpointStore
from dsms.runtime.epoch.commit import Committer, Restore
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.settings import ExecutorSettings
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: The pause before the first retry after a failure; it doubles with every further failure, up to the period.
_RETRY_S = 5.0


class Running(Protocol):
    """The parts of a running fragment that its checkpoints need."""

    name: str
    state: FragmentState


def checkpoints_of(
    fragment: Running, committer: Committer, runs: RunStore, settings: ExecutorSettings
) -> Checkpoints | None:
    """The checkpoints of a fragment; None if checkpoints are not configured."""
    return Checkpoints(fragment, committer, runs, settings) if settings.checkpoints is not None else None


class Checkpoints:
    """Makes a checkpoint once a period and on request. If that fails, it logs and reports the error and retries; the
    fragment keeps running."""

    def __init__(self, fragment: Running, committer: Committer, runs: RunStore, settings: ExecutorSettings) -> None:
        assert settings.checkpoints is not None
        self._fragment, self._committer, self._runs = fragment, committer, runs
        self._kafka: KafkaSettings = settings.kafka
        self._cluster, self._settings = settings.cluster, settings.checkpoints
        self._store = CheckpointStore(ObjectStore(self._settings.url), settings.cluster, fragment.name)
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._requested = 0
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        #: The status that the executor reports.
        self.status = CheckpointStatus()

    def restore_for(self, plan: FragmentPlan, targets: int | None) -> Restore:
        """The function that restores the fragment's state from a checkpoint, for a plan. With `targets`, the state must
        have been stored for this number of targets."""
        recovery = Recovery(self._store, self._runs, self._kafka, self._fragment.name)
        needs = Needs(plan.queries.keys(), _topics(plan).keys())
        return lambda incomplete, published: recovery.restore(incomplete, published, targets, needs)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def request(self, number: int) -> None:
        """Requests a checkpoint, unless this request or a later one has been received already."""
        if number > self._requested:
            self._requested = number
            self._wake.set()

    def close(self) -> None:
        """Stops making checkpoints, and abandons one that is being made."""
        self._stopping.set()
        self._wake.set()

    def _run(self) -> None:
        pause = self._settings.period_s
        while not self._stopping.is_set():
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopping.is_set():
                return
            pause = self._attempt(pause)

    def _attempt(self, pause: float) -> float:
        """Makes a checkpoint; returns the seconds until the next attempt."""
        requested = self._requested
        try:
            made = self._make()
        except Exception as error:
            if not isinstance(error, DsmsError):
                log.exception("making a checkpoint failed because of a defect", fragment=self._fragment.name)
            failing, self.status = bool(self.status.error), msgspec.structs.replace(self.status, error=str(error))
            retry = min(pause * 2 if failing else _RETRY_S, self._settings.period_s)
            log.error("making a checkpoint failed", fragment=self._fragment.name, reason=str(error), retry_s=retry)
            return retry
        self.status = msgspec.structs.replace(self.status, error="", served=max(requested, self.status.served))
        if made is not None and made.id != self.status.id:
            self.status = msgspec.structs.replace(self.status, id=made.id, created=made.created, bytes=made.bytes)
            log.info("checkpoint", fragment=self._fragment.name, checkpoint=made.id, bytes=made.bytes)
        return self._settings.period_s

    def _make(self) -> Checkpoint | None:
        with self._committer.retaining_runs() as committed:
            if committed is None:
                return None
            maker = CheckpointMaker(
                self._store,
                self._runs,
                self._kafka,
                (self._cluster, self._fragment.name),
                self._settings.retention,
                lambda: not (self._stopping.is_set() or self._committer.replaced()),
            )
            state = self._fragment.state
            running = {query for query, planned in state.plan.queries.items() if not planned.stopped}
            token = self._committer.claim.token
            return maker.make(CheckpointInput(committed, token, running - state.failures.keys(), _topics(state.plan)))


def _topics(plan: FragmentPlan) -> dict[str, str]:
    """The topics of the sources that a plan reads, by source id."""
    read = [source for planned in plan.queries.values() for source in planned.sources]
    former = [planned.former for planned in plan.queries.values() if planned.former is not None]
    read += [source for node in former for source in properties.sources(node)]
    return {source.id: source.topic for source in read}
