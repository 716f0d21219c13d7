"""The heartbeat log: promises about silent partitions, which all fragments of a cluster write and follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import HEARTBEATS, transactional_id
from connectors.kafka.client.topics import earliest, latest
from connectors.kafka.logs.heartbeat_records import (
    ASK,
    READS,
    HeartbeatRecord,
    Heartbeats,
    SourcePartition,
    read_heartbeat,
)
from connectors.kafka.logs.internal_log import Entry, Findings, InternalLog
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.range_reader import RangeReader, raise_errors
from operators.core.clock import Heartbeat
from operators.core.errors import ExternalError

#: The time to wait until written records can be read; it is longer than any transaction, because an open transaction of
#: another fragment hides later records. Then the age at which other fragments withdraw an open proposal.
VISIBLE_TIMEOUT_S, PROPOSAL_TIMEOUT_S = 120.0, 30.0
#: Returns the committed ends of source partitions.
Ends = Callable[[Iterable[SourcePartition]], Mapping[SourcePartition, int]]


class HeartbeatLog:
    """The heartbeats of a cluster, read and written by one fragment. Creating this object fences all older owners of
    the fragment, then reads the log. One thread uses it; another thread may close it.

    Law: after a fragment has asked for the ends of source partitions, and then called `follow`, `known` has all valid
    heartbeats below these ends, and `bounds` the offsets of undecided ones.
    """

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str, alarms: Alarms) -> None:
        self._log = InternalLog(settings, cluster, HEARTBEATS, alarms, fragment)
        self._writer = transactional_writer(settings, transactional_id(cluster, f"{fragment}.heartbeats"))
        self._reader, self._fragment = RangeReader(settings), fragment
        self._state, self._findings = Heartbeats(), Findings()
        self._next = earliest(self._log.admin, [self._log_partition]).get(self._log_partition, 0)
        #: When each open proposal was first seen.
        self._seen: dict[tuple[str, SourcePartition], float] = {}
        self._catch_up()
        self._answer({partition: False for asker, partition in self._state.open_proposals if asker == fragment})

    @property
    def known(self) -> dict[SourcePartition, list[Heartbeat]]:
        """All valid heartbeats by (source id, partition), in offset order."""
        return self._state.known

    def follow(self, sources: Iterable[str]) -> None:
        """Announces that this fragment reads the sources, and reads the log to its end. Callers ask for the ends of the
        sources before, and read the sources up to these ends after.
        """
        fresh = [source for source in sources if self._fragment not in self._state.readers[source]]
        if fresh:
            self._write([(f"{READS}/{self._fragment}/{source}", True) for source in fresh])
        else:
            self._catch_up()
        self._withdraw_old()

    def bounds(self) -> dict[SourcePartition, int]:
        """The offsets beyond which this fragment may not read yet, because proposals at these offsets are undecided."""
        return self._state.bounds()

    def promise(self, due: Mapping[str, Mapping[int, Heartbeat]], ends: Ends) -> None:
        """Logs heartbeats by source and partition; afterwards, `known` has the valid ones.

        If another fragment reads the source too, a heartbeat is valid only if `ends` shows that no fragment can have
        read beyond its offset.
        """
        beats = {(source, part): beat for source, parts in due.items() for part, beat in parts.items()}
        beats = {partition: beat for partition, beat in beats.items() if self._state.promises_more(partition, beat)}
        asked = [partition for partition in beats if self._state.shared(partition[0], self._fragment)]
        self._write(
            [
                (
                    f"{ASK}/{self._fragment}/{_text(partition)}" if partition in asked else _text(partition),
                    (beat.offset, beat.time),
                )
                for partition, beat in beats.items()
            ]
        )
        if asked:
            found = ends(asked)
            self._answer({partition: found.get(partition) == beats[partition].offset for partition in asked})

    def close(self) -> None:
        """Closes the log's producer."""
        self._writer.close()

    @property
    def _log_partition(self) -> tuple[str, int]:
        return (self._log.topic, 0)

    def _answer(self, answers: Mapping[SourcePartition, bool]) -> None:
        self._write(
            [(f"{ASK}/{self._fragment}/{_text(partition)}", confirmed) for partition, confirmed in answers.items()]
        )

    def _withdraw_old(self) -> None:
        """Withdraws old proposals of other fragments, which may have ended."""
        now = time.monotonic()
        self._seen = {asked: self._seen.get(asked, now) for asked in self._state.open_proposals}
        old = [
            (f"{ASK}/{by}/{_text(partition)}", False)
            for (by, partition), at in self._seen.items()
            if now - at > PROPOSAL_TIMEOUT_S
        ]
        self._write(old)

    def _write(self, records: Sequence[tuple[str, object]]) -> None:
        """Writes records and reads the log until it contains them, because the order in the log decides which are
        valid.
        """
        if not records:
            return
        keys, values = [key.encode() for key, _ in records], [msgspec.json.encode(value) for _, value in records]
        self._writer.begin()
        self._writer.write(self._log.records(keys, values))
        self._writer.commit()  # if the outcome is unknown, the reads below decide
        missing, deadline = dict.fromkeys(zip(keys, values, strict=True)), time.monotonic() + VISIBLE_TIMEOUT_S
        while missing:
            for entry in self._catch_up():
                missing.pop((entry.key, entry.value or b""), None)
            if missing and time.monotonic() > deadline:
                raise ExternalError(
                    f'the records written to "{self._log.topic}" cannot be read after {VISIBLE_TIMEOUT_S:g} s'
                )

    def _catch_up(self) -> list[Entry]:
        """Applies the records up to the committed end, and returns the valid ones that this fragment wrote."""
        end = latest(self._log.admin, [self._log_partition]).get(self._log_partition, self._next)
        ours: list[Entry] = []
        for piece in raise_errors(self._reader.read([OffsetRange(*self._log_partition, self._next, end)])[0]):
            for entry, record in self._log.values(piece, _with_entry, self._findings):
                self._state.take(record)
                if entry.writer == self._fragment:
                    ours.append(entry)
        self._next = max(self._next, end)
        return ours


def _text(partition: SourcePartition) -> str:
    return f"{partition[0]}/{partition[1]}"


def _with_entry(entry: Entry) -> tuple[Entry, HeartbeatRecord]:
    return entry, read_heartbeat(entry)
