"""Reports of an executor on its fragments, once a second: control tables and stories in Redis, samples in Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import latest
from connectors.kafka.logs.sample_log import SampleLog
from connectors.state.cluster import ClusterState
from dsms.executor.runner import Runner
from dsms.introspection.entities import Report
from dsms.introspection.entity_sampling import Ends, Sampler, WaitingInput, topics_of
from dsms.introspection.paths import path_stages
from dsms.introspection.sample_records import changed
from dsms.planner.physical.lane import Lane
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.settings import ExecutorSettings
from dsms.scheduling.tuning import read_tuning
from operators.core.errors import DsmsError, ExternalError

log = structlog.get_logger()
_PERIOD_S = 1.0


class Reporter:
    """Reports on the fragments once a second. Nothing waits for the reports, and their failures affect nothing else."""

    def __init__(
        self, settings: ExecutorSettings, cluster: ClusterState, runners: Callable[[], Mapping[str, Runner]]
    ) -> None:
        self._settings, self._cluster, self._runners = settings, cluster, runners
        self._admin = settings.kafka.admin()
        self._samples = SampleLog(settings.kafka, settings.cluster, settings.executor_id)
        self._last: dict[str, Report] = {}
        #: The current tunable settings.
        self.tunable = settings.tunable

    def run(self, stopping: threading.Event) -> None:
        """Runs until `stopping` is set."""
        while not stopping.wait(_PERIOD_S):
            try:
                self._read_tuning()
                self._request_checkpoints()
                for runner in self._runners().values():
                    runner.story.publish()
                self._report_all()
            except DsmsError as error:
                log.debug("the report could not be stored", reason=str(error))
        self._samples.close()

    @property
    def last(self) -> tuple[Report, ...]:
        """The last reports."""
        return tuple(self._last.values())

    def _read_tuning(self) -> None:
        """Reads the settings that users have changed for this executor."""
        try:
            self.tunable = read_tuning(self._cluster.tuning(self._settings.executor_id)).over(self._settings.tunable)
        except DsmsError as error:
            log.debug("the tunable settings could not be read; the last ones stay in force", reason=str(error))

    def _request_checkpoints(self) -> None:
        """Passes the last request for checkpoints on to the fragments."""
        number = self._cluster.checkpoint_request()
        for runner in self._runners().values() if number else ():
            runner.request_checkpoint(number)

    def _report_all(self) -> None:
        fragments = ((name, runner.running()) for name, runner in self._runners().items())
        running = {name: fragment for name, fragment in fragments if fragment is not None}
        ends = self._ends([lane for state in running.values() for lane in state.revision.lanes.values()])
        reports = {name: self._report(name, fragment, ends) for name, fragment in running.items()}
        for name, report in reports.items():
            self._cluster.write_report(name, msgspec.msgpack.encode(report))
            for purpose, records in changed(self._last.get(name), report).items():
                self._samples.append(internal_topic(self._settings.cluster, purpose), records)
        self._last = reports

    def _ends(self, lanes: list[Lane]) -> Ends:
        try:
            return latest(self._admin, topics_of(lanes))
        except ExternalError:
            return {}

    def _report(self, name: str, state: FragmentState, ends: Ends) -> Report:
        revision, now = state.revision, time.monotonic()
        lanes, sampler = revision.lanes, Sampler(name, state.metrics, now)
        waiting = {lane_id: _waiting(progress) for lane_id, progress in revision.manifest.lanes.items()}
        return Report(
            executor=self._settings.executor_id,
            fragment=name,
            at=time.time(),
            operators=sampler.operators(lanes),
            queues=sampler.queues(lanes, waiting, ends),
            synopses=sampler.synopses(lanes),
            constraints=sampler.constraints(lanes, waiting),
            paths=path_stages(name, revision, state.schedule, now),
        )


def _waiting(progress: LaneManifest) -> WaitingInput:
    offsets = {place: at.offset for place, at in progress.places.items()}
    return WaitingInput(
        offsets,
        {
            stage: (sum(segment.rows for segment in queue.segments), sum(segment.bytes for segment in queue.segments))
            for stage, queue in progress.queues.items()
        },
        {place: at.orders for place, at in progress.places.items()},
    )
