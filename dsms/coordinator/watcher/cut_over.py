"""When records of internal topics count only if they name their writer: once every writer does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter
from connectors.kafka.internal_log import InternalLog
from connectors.kafka.names import transactional_id
from dsms.scheduler.leases import RUNNING, ExecutorStatus

log = structlog.get_logger()


def all_mark(fragments: Iterable[str], alive: Mapping[str, ExecutorStatus]) -> bool:
    """Whether every fragment runs on an executor that names itself in what it writes, and no other executor lives. Such
    an owner has fenced the older ones, so nobody else can write any more.

    >>> old, new = (ExecutorStatus(fragments={"0": RUNNING}, marks=marks) for marks in (False, True))
    >>> all_mark(["0"], {"a": old}), all_mark(["0"], {"a": new}), all_mark(["0", "1"], {"a": new})
    (False, True, False)
    """
    running = {name for status in alive.values() for name, state in status.fragments.items() if state == RUNNING}
    return bool(alive) and all(status.marks for status in alive.values()) and set(fragments) <= running


@dataclass
class CutOver:
    """A duty of the coordinator that is done once."""

    kafka: KafkaSettings
    cluster: str
    logs: tuple[InternalLog, ...]
    fragments: Callable[[], Iterable[str]]
    _done: bool = field(default=False)

    def __call__(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Writes the cut-over to each topic that has none, as soon as that is right."""
        if self._done or not all_mark(self.fragments(), alive):
            return
        writer: EpochWriter | None = None
        try:
            for internal in self.logs:
                if (records := internal.missing_cut_over()) is not None:
                    writer = writer or EpochWriter(self.kafka, transactional_id(self.cluster, "cut-over"))
                    writer.begin()
                    writer.write(records)
                    writer.commit()
                    log.info("from here on records count only if they name their writer", topic=internal.topic)
        finally:
            if writer is not None:
                writer.close()
        self._done = True
