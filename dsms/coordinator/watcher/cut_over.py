"""Writes the cut-over of internal topics: the record after which only records that name their writer are valid. It is
written once all running writers name themselves in their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import transactional_id
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.record_columns import Records
from dsms.coordinator.watcher.background import Background
from dsms.placement.leases import RUNNING, ExecutorStatus
from operators.core.errors import DsmsError

log = structlog.get_logger()


def all_mark(fragments: Iterable[str], alive: Mapping[str, ExecutorStatus]) -> bool:
    """Whether every fragment runs on an executor that names itself in its records, and no other executor is alive. Such
    executors have fenced the older ones, so no others can write any more.

    >>> old, new = (ExecutorStatus(fragments={"0": RUNNING}, names_writer=names) for names in (False, True))
    >>> all_mark(["0"], {"a": old}), all_mark(["0"], {"a": new}), all_mark(["0", "1"], {"a": new})
    (False, True, False)
    """
    running = {name for status in alive.values() for name, state in status.fragments.items() if state == RUNNING}
    return bool(alive) and all(status.names_writer for status in alive.values()) and set(fragments) <= running


@dataclass
class CutOver:
    """A duty of the watcher that is done once, in a thread of its own, since the logs may be long."""

    kafka: KafkaSettings
    cluster: str
    logs: tuple[InternalLog, ...]
    fragments: Callable[[], Iterable[str]]
    _done: bool = False
    background: Background = field(default_factory=lambda: Background("cut-over"))

    def __call__(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Writes the cut-over to each topic that has none, when all writers name themselves."""
        if not (self._done or self.background.busy) and all_mark(self.fragments(), alive):
            self.background.start(self._try)

    def _try(self) -> None:
        try:
            for internal in self.logs:
                if (records := internal.missing_cut_over()) is not None:
                    self._write(records)
                    log.info("from here on only records that name their writer are valid", topic=internal.topic)
            self._done = True
        except DsmsError as error:
            log.warning("the cut-over failed and will be tried again", reason=str(error))

    def _write(self, records: Records) -> None:
        writer = EpochWriter(self.kafka, transactional_id(self.cluster, "cut-over"))
        try:
            writer.begin()
            writer.write(records)
            writer.commit()
        finally:
            writer.close()
