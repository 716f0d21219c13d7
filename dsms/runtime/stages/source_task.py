"""The source stage in a Spark worker: reads slices of Kafka topics and yields Arrow batches of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.pieces import pieces
from connectors.kafka.schema_registry.registry import schema_lookup
from dsms.model.objects import Source
from dsms.runtime.batching.offsets import Slice, SourceTask
from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.memory.cyclic_collector import collect_between_tasks
from dsms.runtime.memory.worker_limit import limit_memory
from dsms.runtime.stages.awaited_schemas import Wait
from dsms.runtime.stages.link_intake import LinkIntake
from dsms.runtime.stages.record_reading import WriterSchema
from dsms.runtime.stages.slice_intake import SliceIntake, admit_slice
from dsms.runtime.stages.source_stage import SliceRead, SliceRequest, run_source_stage
from dsms.runtime.stages.wire import ArrowOutbox
from operators.core.errors import DsmsError


@dataclass(frozen=True)
class KafkaSourceTask:
    """A source task with the settings that are needed to read its slices. `frames` is the directory of large frames, if
    all workers are on one machine."""

    task: SourceTask
    kafka: KafkaSettings
    registry_url: str
    frames: Path | None = None


def run_source_task(kafka_task: KafkaSourceTask) -> Iterator[pa.RecordBatch]:
    """The messages of a task as Arrow batches, one per slice."""
    limit_memory()
    collect_between_tasks()
    task, reader = kafka_task.task, KafkaSlices(kafka_task.kafka, kafka_task.registry_url)
    for outbox in run_source_stage(task, reader, partial(ArrowOutbox, task.revision, kafka_task.frames)):
        yield outbox.batch()
        del outbox  # so that its bytes are freed before the next slice is read
    return_freed_memory()


class KafkaSlices:
    """Reads slices from Kafka."""

    def __init__(self, kafka: KafkaSettings, registry_url: str) -> None:
        self._kafka, self._registry_url = kafka, registry_url

    def read(self, requests: Sequence[SliceRequest]) -> Iterator[tuple[SliceRequest, SliceRead | DsmsError]]:
        """Reads several partitions at once; an error of one partition does not affect the others."""
        ranges = [_range(request.slice) for request in requests]
        reader = _reader_of(self._kafka)
        for group in disjoint(ranges):
            for index, records in zip(group, reader.read([ranges[index] for index in group]), strict=True):
                request = requests[index]
                writer = self._writer(request.source)
                intake = admit_slice(request.source, request.slice, writer, records, request.columns)
                if isinstance(intake, DsmsError):
                    yield request, intake
                else:
                    yield _cut(request, intake.wait), _read(intake, request)
                del intake  # so that it is freed before the next slice is decoded

    def _writer(self, source: Source) -> WriterSchema:
        """Looks up schemas in a source's own registry, or else in that of the system."""
        return schema_lookup(source.registry or self._registry_url, ours=source.registry is None)

    def values(self, slice_: Slice, offsets: set[int]) -> Mapping[int, object]:
        """Reads the records again. Returns the value of each record, or its key if it has no value."""
        again = OffsetRange(slice_.topic, slice_.partition, min(offsets), max(offsets) + 1)
        messages = (message for piece in pieces(self._kafka, [again]) for message in piece)
        kept = {message.offset(): message for message in messages if message.offset() in offsets}
        return {at: message.key() if message.value() is None else message.value() for at, message in kept.items()}


def _cut(request: SliceRequest, wait: Wait | None) -> SliceRequest:
    """The request, cut to what was read."""
    return request if wait is None else replace(request, slice=replace(request.slice, end=wait.offset))


def _read(intake: SliceIntake | LinkIntake, request: SliceRequest) -> SliceRead:
    waits_for = None if intake.wait is None else intake.wait.reason
    return SliceRead(intake.admitted(), intake.work(len(request.slice.lanes)), waits_for)


def _range(slice_: Slice) -> OffsetRange:
    return OffsetRange(slice_.topic, slice_.partition, slice_.start, slice_.end)


def disjoint(ranges: Sequence[OffsetRange]) -> list[list[int]]:
    """Groups the indices of ranges so that no group has two ranges of one partition, because a consumer has only one
    position in each partition.

    >>> disjoint([OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 5), OffsetRange("t", 0, 5, 9)])
    [[0, 1], [2]]
    """
    groups: list[list[int]] = []
    for index, wanted in enumerate(ranges):
        for group in groups:
            if all(ranges[other].key != wanted.key for other in group):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


@lru_cache(maxsize=4)
def _reader_of(kafka: KafkaSettings) -> LogReader:
    """The reader of this worker process, which keeps its connections between tasks."""
    return LogReader(kafka)
