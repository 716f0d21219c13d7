"""Turns the changes between successive reports into records of the streams `dsms_operators` and `dsms_queues`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.introspection.entities import Queue, Report, listed
from dsms.introspection.operator_metrics import Operator, stream_columns, stream_values

OPERATORS, QUEUES = "operators", "queues"
#: Key and value of a record.
Record = tuple[bytes, bytes]

#: The columns of the streams, as SQL declares them.
COLUMNS: Mapping[str, str] = {
    OPERATORS: (
        "id VARCHAR, executor VARCHAR, fragment VARCHAR, lane VARCHAR, operator VARCHAR, stage INT, query VARCHAR, "
        "queries INT, " + ", ".join(f"{name} {type_}" for name, type_ in stream_columns())
    ),
    QUEUES: (
        "id VARCHAR, executor VARCHAR, fragment VARCHAR, lane VARCHAR, stage INT, source VARCHAR, "
        "source_partition INT, query VARCHAR, queries INT, next_offset BIGINT, end_offset BIGINT, waiting_rows BIGINT, "
        "waiting_bytes BIGINT"
    ),
}


def changed(before: Report | None, now: Report) -> dict[str, list[Record]]:
    """The records of a report by stream: one for each operator that has run since the previous report, and for each
    queue that has changed. An idle fragment has no records.
    """
    runs_before = {operator.id: operator.runs for operator in before.operators} if before else {}
    queues_before = {queue.id: queue for queue in before.queues} if before else {}
    return {
        OPERATORS: [
            _record(operator.id, _operator(operator, now))
            for operator in now.operators
            if operator.runs > runs_before.get(operator.id, 0)
        ],
        QUEUES: [_record(queue.id, _queue(queue, now)) for queue in now.queues if queue != queues_before.get(queue.id)],
    }


def _record(key: str, fields: Iterator[tuple[str, object]]) -> Record:
    return key.encode(), msgspec.json.encode(dict(fields))


def _operator(operator: Operator, report: Report) -> Iterator[tuple[str, object]]:
    for name in ("id", "fragment", "lane", "operator", "stage"):
        yield name, getattr(operator, name)
    yield from stream_values(operator)
    yield from (("executor", report.executor), ("query", listed(operator.queries)), ("queries", len(operator.queries)))


def _queue(queue: Queue, report: Report) -> Iterator[tuple[str, object]]:
    for name in ("id", "fragment", "lane", "stage", "source", "next_offset", "end_offset"):
        yield name, getattr(queue, name)
    yield from (("source_partition", queue.partition), ("waiting_rows", queue.rows), ("waiting_bytes", queue.bytes))
    yield from (("executor", report.executor), ("query", listed(queue.queries)), ("queries", len(queue.queries)))
