"""The audit log: an internal topic with an entry for every statement and every call that changes something.

Before a change is carried out, an entry that announces it is written to Kafka; an entry with its outcome follows. So
every change has an entry. If the outcome of a change is missing, either a crash interrupted the change, or its entry
was lost and the process has logged this. While Kafka is unavailable, no change is carried out. Other entries
(outcomes, reads, refused calls) are sent without waiting. The code that refuses calls limits how many entries it
writes, so that a flood of refused calls cannot fill the topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec
import structlog

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.internal_log import Entry, InternalLog
from connectors.kafka.logs.log_appender import LogAppender
from dsms.model.audit_entry import AuditEntry, Event
from dsms.model.principal import Caller
from operators.core.decoding import Malformed, decoded
from operators.core.errors import DsmsError, ExternalError
from operators.core.masking import masked

AUDIT = "audit"
_DAY_MS = 86_400_000
#: The required configuration of the topic, and the retention it is created with. The retention may be changed with any
#: Kafka tool.
AUDIT_TOPIC = {"cleanup.policy": "delete"}
RETENTION = {"retention.ms": str(90 * _DAY_MS), "retention.bytes": "-1"}
_LONGEST = 10_000
log = structlog.get_logger()


class Audit(Protocol):
    """Records what callers do."""

    def begins(self, caller: Caller, what: str) -> None:
        """Records what will be done. Raises ExternalError if the entry cannot be written."""
        ...

    def ended(self, caller: Caller, what: str, event: Event, outcome: str, seconds: float) -> None:
        """Records the outcome."""
        ...

    def refused(self, caller: Caller, what: str, outcome: str, more: int) -> None:
        """Records a call that was not carried out, and how many refused calls before it have no entry."""
        ...

    def last(self, count: int) -> list[AuditEntry]:
        """The last entries, the newest first."""
        ...


@contextmanager
def audited(audit: Audit, caller: Caller, what: str) -> Iterator[Callable[[], None]]:
    """Records what the block does, and its outcome. Before the block changes something, it must call the function that
    it gets, which returns when the entry that announces the change is in Kafka. That function raises ExternalError if
    the entry cannot be written."""
    began = time.monotonic()
    try:
        yield lambda: audit.begins(caller, what)
    except BaseException as error:
        outcome = str(error) if isinstance(error, DsmsError) else type(error).__name__
        audit.ended(caller, what, "failed", outcome, time.monotonic() - began)
        raise
    audit.ended(caller, what, "done", "", time.monotonic() - began)


class AuditLog:
    """The log in Kafka. Thread-safe."""

    def __init__(
        self, settings: KafkaSettings, cluster: str, alarms: Alarms, clock: Callable[[], float] = time.time
    ) -> None:
        self._log = InternalLog(settings, cluster, AUDIT, alarms, "coordinator")
        self._appender, self._clock = LogAppender(settings, self._log), clock

    def begins(self, caller: Caller, what: str) -> None:
        """Records what will be done, and returns when the entry is in Kafka. Raises ExternalError if it cannot be
        written."""
        try:
            self._appender.append_now(msgspec.json.encode(self._entry(caller, "begun", what)))
        except ExternalError as error:
            raise ExternalError(f"nothing was done, since the audit log cannot be written: {error.message}") from error

    def ended(self, caller: Caller, what: str, event: Event, outcome: str, seconds: float) -> None:
        """Records the outcome, without waiting for Kafka."""
        self._send(self._entry(caller, event, what, outcome, seconds))

    def refused(self, caller: Caller, what: str, outcome: str, more: int) -> None:
        """Records a call that was not carried out, without waiting for Kafka, and how many before it have no entry."""
        self._send(msgspec.structs.replace(self._entry(caller, "refused", what, outcome), more=more))

    def last(self, count: int) -> list[AuditEntry]:
        """The last entries, the newest first."""
        self._appender.flush()
        return self._log.last(_decoded, count)[::-1]

    def _entry(self, caller: Caller, event: Event, what: str, outcome: str = "", seconds: float = 0.0) -> AuditEntry:
        who, at = caller.principal, int(self._clock() * 1000)
        return AuditEntry(
            at, who.name, who.role, caller.request_id, event, _short(what), _short(outcome), round(seconds, 4)
        )

    def _send(self, audit_entry: AuditEntry) -> None:
        if not self._appender.append(msgspec.json.encode(audit_entry)):
            log.error(
                "an entry of the audit log was lost: too many entries wait to be sent to kafka",
                request=audit_entry.request,
            )


class NoAudit:
    """Records nothing: a session in one process has nobody to audit."""

    def begins(self, caller: Caller, what: str) -> None:
        """Does nothing."""

    def ended(self, caller: Caller, what: str, event: Event, outcome: str, seconds: float) -> None:
        """Does nothing."""

    def refused(self, caller: Caller, what: str, outcome: str, more: int) -> None:
        """Does nothing."""

    def last(self, count: int) -> list[AuditEntry]:
        """No entries."""
        return []


def _short(text: str) -> str:
    """The text with secrets masked, cut to the greatest length."""
    safe = masked(text)
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}… ({len(safe):,} characters)"


def _decoded(entry: Entry) -> AuditEntry:
    if entry.value is None:
        raise Malformed("empty")
    audit_entry = decoded(entry.value, AuditEntry)
    assert isinstance(audit_entry, AuditEntry)
    return audit_entry
