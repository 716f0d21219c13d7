"""Runs the sinks of the catalog: a duty of the watcher that keeps one process for each sink."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec
import structlog

from connectors.tables.sink_report import SinkReport
from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from dsms.coordinator.sinks.sink_process import ReaderAccess, SinkProcess, SinkWork
from dsms.model.catalog import Catalog
from dsms.model.sink_states import SinkState
from operators.core.errors import DsmsError, UserError

log = structlog.get_logger()


class RunningSink(Protocol):
    """The process of a sink; `SinkProcess` is a real one."""

    work: SinkWork

    def start_if_due(self) -> None:
        """Starts the process if it does not run and its pause is over."""
        ...

    def report(self) -> SinkReport | None:
        """Its last report."""
        ...

    def state(self, name: str) -> SinkState:
        """The state of the sink of this name."""
        ...

    def end(self) -> None:
        """Kills the process."""
        ...


class MakeProcess(Protocol):
    """Creates the process of a sink; `SinkProcess` does so."""

    def __call__(
        self, name: str, work: SinkWork, directory: Path, access: ReaderAccess, *, restart: bool
    ) -> RunningSink: ...


class SinkRunner:
    """The processes of the sinks. The laws:

    - A process runs only for a sink of the catalog, with its present declaration, and while this coordinator leads.
    - A target is checked in each turn, since symbolic links may change.
    - A restart empties the target. Once the catalog has noted this, which the process reports, it is not emptied again.
    """

    def __init__(self, store: CatalogStore, allowed: AllowedTargets, make: MakeProcess = SinkProcess) -> None:
        self._store, self._allowed, self._make = store, allowed, make
        self._access: Callable[[], ReaderAccess] | None = None
        self._processes: dict[str, RunningSink] = {}
        self._states: Mapping[str, SinkState] = MappingProxyType({})
        self._directory: Path | None = None
        #: Held while processes are started and ended, so that none starts after `stop`.
        self._lock = threading.Lock()

    def start(self, access: Callable[[], ReaderAccess]) -> None:
        """From now on, `turn` runs sinks, whose processes read from this coordinator by `access`."""
        with self._lock:
            self._access = access

    def stop(self) -> None:
        """Ends all processes; none starts again."""
        with self._lock:
            self._access = None
            for name in list(self._processes):
                self._end(name)
            self._states = MappingProxyType({})
            if self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)
                self._directory = None

    def states(self) -> Mapping[str, SinkState]:
        """The states of the sinks after the last turn, by lower-case name."""
        return self._states

    def turn(self) -> None:
        """Ends the processes that the catalog no longer wants, and starts those that are missing."""
        catalog = self._store.catalog
        with self._lock:
            if self._access is None:
                return
            works = {name: SinkWork.of(sink, catalog) for name, sink in catalog.sinks.items()}
            for name, process in list(self._processes.items()):
                if works.get(name) != process.work:
                    self._end(name)
            self._states = {name: self._run(name, work, catalog) for name, work in works.items()}
        self._note_cleared(catalog)

    def _run(self, name: str, work: SinkWork, catalog: Catalog) -> SinkState:
        """Keeps the process of a sink running, and returns the state of the sink."""
        sink = catalog.sinks[name]
        try:
            self._allowed.check(work.target)
        except UserError as error:
            self._end(name)
            if self._reason_of(name) != error.message:
                log.warning("the target of a sink is not allowed", sink=sink.name, reason=str(error))
            return SinkState("failed", error.message)  # without the hint, which lists all allowed targets
        try:
            if name not in self._processes:
                self._processes[name] = self._made(name, work, restart=sink.cleared < sink.restarts)
            self._processes[name].start_if_due()
            return self._processes[name].state(sink.name)
        except (DsmsError, OSError) as error:  # such as too many open files
            if self._reason_of(name) != str(error):
                log.warning("a sink cannot be started", sink=sink.name, reason=str(error))
            return SinkState("retrying", str(error))

    def _reason_of(self, name: str) -> str:
        """The reason in the state of a sink after the last turn. What stays the same is logged once."""
        return self._states[name].reason if name in self._states else ""

    def _made(self, name: str, work: SinkWork, *, restart: bool) -> RunningSink:
        assert self._access is not None
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="dsms-sinks-"))
        directory = Path(tempfile.mkdtemp(dir=self._directory))
        log.info("a sink starts", sink=name, result=work.result, target=work.target)
        return self._make(name, work, directory, self._access(), restart=restart)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.end()
            log.info("the process of a sink has ended", sink=name)

    def _note_cleared(self, catalog: Catalog) -> None:
        """Notes in the catalog which targets are empty, so that they are not emptied again."""
        for name, process in list(self._processes.items()):
            try:
                report = process.report()
            except (DsmsError, OSError) as error:
                log.warning("the report of a sink cannot be read", sink=name, reason=str(error))
                continue
            if report is not None and report.cleared > catalog.sinks[name].cleared:
                self._store.try_change(partial(_cleared, name, process.work.created, report.cleared))


def _cleared(name: str, created: int, restarts: int, catalog: Catalog) -> tuple[Catalog, None]:
    """The catalog which notes that the target of a sink was emptied for this number of restarts."""
    sink = catalog.sinks.get(name)
    if sink is None or sink.created != created or not sink.cleared < restarts <= sink.restarts:
        return catalog, None
    return catalog.with_sink(msgspec.structs.replace(sink, cleared=restarts)), None
