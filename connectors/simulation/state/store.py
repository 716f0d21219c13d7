"""The simulated server of a cluster's state, and the connections of processes to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast
from weakref import WeakValueDictionary

from connectors.alarms import Alarms
from connectors.memory.answers import MemoryAnswers
from connectors.memory.inspection import MemoryInspection
from connectors.memory.manifest import Manifest, MemoryManifest
from connectors.runs.host_runs import HostRuns
from connectors.runs.shared import SharedRuns
from connectors.simulation.faults import Fault, FaultPlan, Kind
from connectors.simulation.scheduler import Scheduler
from connectors.simulation.state.calls import Calls, Remote, Server
from connectors.simulation.state.content import Snapshot, StoreContent
from connectors.state.store import DocumentStore

#: A server that goes back to an earlier content is away for so long.
RESTART_S = 1.0
_FAULTS: tuple[Kind, ...] = ("store restarts", "store loses all", "store goes back", "store full")


class SimulatedStore:
    """The server. Its clock is the true time, by which documents expire.

    >>> from connectors.simulation.scheduler import Process
    >>> from connectors.state.cluster import ClusterState
    >>> scheduler = Scheduler(seed=1)
    >>> store = SimulatedStore(scheduler, FaultPlan(), "main")
    >>> cluster = ClusterState(store.address().open().documents())
    >>> _ = scheduler.spawn(lambda: cluster.renew_lease("e", b"alive"), "main", Process("executor-1"))
    >>> scheduler.run_until(1.0); cluster.executors()
    {'e': b'alive'}
    >>> scheduler.run_until(6.0); cluster.executors()
    {}
    >>> scheduler.close()
    """

    def __init__(self, scheduler: Scheduler, plan: FaultPlan, cluster: str) -> None:
        self.cluster = cluster
        self._scheduler, self._plan, self._server = scheduler, plan, Server()
        #: What the server stores, as checks see it.
        self.content = StoreContent(cluster, lambda: scheduler.epoch_s + scheduler.now)
        self._past: dict[Fault, Snapshot] = {}
        self._full_until = 0.0
        self._calls = Calls(scheduler, plan, self._server)
        for fault in plan.due(_FAULTS):
            self._schedule(fault)

    def address(self) -> SimulatedAddress:
        """The address for one process, from its start to its end."""
        return SimulatedAddress(self)

    def open(self) -> SimulatedState:
        """A connection."""
        return SimulatedState(self.cluster, self.content, self._calls)

    def damage_run(self, fragment: str, run: str) -> None:
        """Damages the shared copy of a run, as a fault of a server may."""
        self.content.runs[fragment].damage_run(run)

    def _schedule(self, fault: Fault) -> None:
        if fault.kind == "store goes back":
            self._scheduler.call_at(max(fault.at_s - fault.for_s, 0.0), partial(self._keep, fault))
        self._scheduler.call_at(fault.at_s, partial(self._carry_out, fault))

    def _keep(self, fault: Fault) -> None:
        self._past[fault] = self.content.snapshot()

    def _carry_out(self, fault: Fault) -> None:
        self._plan.happened[fault.kind] += 1
        self._scheduler.record(f"store: {fault}")
        if fault.kind == "store full":
            self._fill(fault.for_s)
            return
        if fault.kind != "store restarts":
            self.content.restore(self._past.pop(fault, Snapshot()))
        self._restart(RESTART_S if fault.kind == "store goes back" else fault.for_s)

    def _fill(self, for_s: float) -> None:
        self._server.full, self._full_until = True, max(self._full_until, self._scheduler.now + for_s)
        self._scheduler.call_at(self._full_until, self._empty)

    def _empty(self) -> None:
        self._server.full = self._scheduler.now < self._full_until

    def _restart(self, for_s: float) -> None:
        self._server.away = True
        self._server.starts += 1
        self._scheduler.call_at(self._scheduler.now + for_s, partial(self._come_back, self._server.starts))

    def _come_back(self, start: int) -> None:
        """Ends an absence, unless another one has begun."""
        self._server.away = self._server.away and self._server.starts != start


class SimulatedState:
    """Implements `connectors.state.store.StateStore`: a connection of a process to the server."""

    def __init__(self, cluster: str, content: StoreContent, calls: Calls) -> None:
        self._cluster, self._content, self._calls = cluster, content, calls

    def documents(self) -> DocumentStore:
        """The documents of the cluster."""
        return cast(DocumentStore, self._remote("documents", self._content.documents))

    def manifest(self, fragment: str) -> MemoryManifest:
        """The manifest of a fragment, for one incarnation."""
        name = f"manifest {fragment}"
        return MemoryManifest(cast(Manifest, self._remote(name, self._content.manifests[fragment])), name)

    def runs(self, fragment: str, cache: Path, limit: int | None = None) -> HostRuns:
        """The runs of a fragment. `cache` is a real directory of the simulated host."""
        shared = self._remote(f"runs {fragment}", self._content.runs[fragment])
        return HostRuns(cast(SharedRuns, shared), cache, limit)

    def inspection(self) -> MemoryInspection:
        """The content of the store."""
        content = self._content
        inspection = MemoryInspection(self._cluster, content.documents, content.manifests, content.runs)
        return cast(MemoryInspection, self._remote("inspection", inspection))

    def answers(self) -> MemoryAnswers:
        """The answers that are kept for idempotency keys."""
        return cast(MemoryAnswers, self._remote("answers", self._content.answers))

    def _remote(self, name: str, part: object) -> Remote:
        return Remote(self._calls, name, part)


_numbers = itertools.count()
_addresses: WeakValueDictionary[int, SimulatedAddress] = WeakValueDictionary()


class SimulatedAddress:
    """Stands in for `dsms.state.stores.StateAddress`. Each process has one of its own: two are never equal, so nothing
    that is cached by address is shared by processes. It can be pickled within the Python process."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store, self._number = store, next(_numbers)
        self.cluster = store.cluster
        _addresses[self._number] = self

    def open(self, alarms: Alarms | None = None) -> SimulatedState:
        """Opens the store. No content of it is invalid, so no alarm is raised."""
        return self._store.open()

    def __reduce__(self) -> tuple[Callable[[int], SimulatedAddress], tuple[int]]:
        return _address, (self._number,)


def _address(number: int) -> SimulatedAddress:
    return _addresses[number]
