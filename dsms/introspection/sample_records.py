"""Control tables as streams: what changed in a report since the last one, as records of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.introspection.entities import Operator, Queue, Report, listed

OPERATORS, QUEUES = "operators", "queues"
#: Key and value of a record.
Record = tuple[bytes, bytes]

#: The columns of the streams, as SQL declares them.
COLUMNS: Mapping[str, str] = {
    OPERATORS: (
        "id VARCHAR, executor VARCHAR, fragment VARCHAR, lane VARCHAR, operator VARCHAR, stage INT, query VARCHAR, "
        "queries INT, runs BIGINT, rows_in BIGINT, rows_out BIGINT, busy_seconds DOUBLE, rows_in_per_second DOUBLE, "
        "rows_out_per_second DOUBLE, load DOUBLE, selectivity DOUBLE, seconds_per_row DOUBLE, state_rows BIGINT, "
        "state_bytes BIGINT"
    ),
    QUEUES: (
        "id VARCHAR, executor VARCHAR, fragment VARCHAR, lane VARCHAR, stage INT, source VARCHAR, "
        "source_partition INT, query VARCHAR, queries INT, next_offset BIGINT, end_offset BIGINT, waiting_rows BIGINT, "
        "waiting_bytes BIGINT"
    ),
}  # fmt: skip


def changed(before: Report | None, now: Report) -> dict[str, list[Record]]:
    """The records of a report, by stream: of operators that ran since the one before, and of queues that are not as
    they were. Where nothing runs, nothing is told."""
    ran = {one.id: one.runs for one in before.operators} if before else {}
    were = {one.id: one for one in before.queues} if before else {}
    return {
        OPERATORS: [_record(one.id, _operator(one, now)) for one in now.operators if one.runs > ran.get(one.id, 0)],
        QUEUES: [_record(one.id, _queue(one, now)) for one in now.queues if one != were.get(one.id)],
    }


def _record(key: str, fields: Iterator[tuple[str, object]]) -> Record:
    return key.encode(), msgspec.json.encode(dict(fields))


def _operator(one: Operator, report: Report) -> Iterator[tuple[str, object]]:
    for name in ("id", "fragment", "lane", "operator", "stage", "runs", "rows_out", "busy_seconds"):
        yield name, getattr(one, name)
    for name in ("rows_in_per_second", "rows_out_per_second", "load", "selectivity", "seconds_per_row"):
        yield name, getattr(one, name)
    yield from (("state_rows", one.state_rows), ("state_bytes", one.state_bytes), ("rows_in", sum(one.rows_in)))
    yield from (("executor", report.executor), ("query", listed(one.queries)), ("queries", len(one.queries)))


def _queue(one: Queue, report: Report) -> Iterator[tuple[str, object]]:
    for name in ("id", "fragment", "lane", "stage", "source", "next_offset", "end_offset"):
        yield name, getattr(one, name)
    yield from (("source_partition", one.partition), ("waiting_rows", one.rows), ("waiting_bytes", one.bytes))
    yield from (("executor", report.executor), ("query", listed(one.queries)), ("queries", len(one.queries)))
