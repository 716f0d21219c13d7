"""The cut-over is written once, as soon as every writer names itself. Failures of Kafka are retried."""

from __future__ import annotations

from typing import Any

from connectors.kafka.client.config import KafkaSettings
from dsms.coordinator.watcher.cut_over import CutOver
from dsms.local.waiting import wait_until
from dsms.placement.leases import RUNNING, ExecutorStatus
from operators.core.errors import ExternalError

NEW = {"e": ExecutorStatus(RUNNING, fragments={"0": RUNNING}, names_writer=True)}
OLD = {"e": ExecutorStatus(RUNNING, fragments={"0": RUNNING})}


class Log:
    """An internal log, with the number of failures of Kafka, and whether it has a cut-over."""

    topic = "_dsms.c.progress"

    def __init__(self, failures: int = 0, *, has: bool = False) -> None:
        self.failures, self.has, self.looks = failures, has, 0

    def missing_cut_over(self) -> Log | None:
        self.looks += 1
        if self.looks <= self.failures:
            raise ExternalError("kafka is away")
        return None if self.has else self


class Noted(CutOver):
    """Records to which logs it writes."""

    def _write(self, records: Any) -> None:
        records.has = True


def made(*logs: Log) -> Noted:
    return Noted(KafkaSettings("nowhere:1"), "c", logs, lambda: ["0"])  # type: ignore[arg-type]


def turned(duty: CutOver, alive: dict[str, ExecutorStatus]) -> None:
    duty(alive)
    assert wait_until(lambda: not duty.background.busy, 10, pause_s=0.005)


def test_cut_over_waits_for_executors_that_mark_records_and_happens_once() -> None:
    logs = Log(), Log(has=True)
    duty = made(*logs)
    turned(duty, {})
    turned(duty, OLD)
    assert [log.looks for log in logs] == [0, 0]
    for _ in range(3):
        turned(duty, NEW)
    assert [log.looks for log in logs] == [1, 1] and logs[0].has


def test_failed_cut_over_is_retried() -> None:
    log = Log(failures=2)
    duty = made(log)
    for _ in range(2):
        turned(duty, NEW)
        assert not log.has
    turned(duty, NEW)
    assert log.has
