"""Checks result topics and logs of tables for records that the cluster has not written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from connectors.kafka.logs.internal_log import why_foreign_result
from connectors.kafka.records.pieces import committed_ranges, pieces
from dsms.coordinator.doctor.finding import Finding
from dsms.coordinator.doctor.log_checks import Logs
from dsms.model.catalog import Catalog

#: How many of the last offsets of each partition are read, as topics may be long.
LAST_OFFSETS = 100_000


def foreign_findings(logs: Logs, catalog: Catalog) -> Iterator[Finding]:
    """Topics with records that do not name the cluster as their writer. The system ignores such records, but consumers
    of the topic see them."""
    marked = {query.topic: query.marked_by for query in catalog.running()}
    marked |= {table.topic: table.source.marked_by for table in catalog.tables()}
    for topic, marked_by in sorted(marked.items()):
        if marked_by is not None and (found := _foreign(logs, topic, marked_by)):
            count = f"{len(found)} record{'' if len(found) == 1 else 's'} that the cluster has not written"
            problem = f"it holds {count}, the last one at {found[-1]}"
            advice = (
                "dsms ignores them, but consumers see them: find out who may write the topic, and revoke that right"
            )
            yield Finding("warning", f"topic {topic}", problem, advice)


def _foreign(logs: Logs, topic: str, marked_by: str) -> list[str]:
    """The positions of the records that the cluster has not written, as partition/offset."""
    whole = committed_ranges(logs.admin, topic)
    ranges = [replace(each, start=max(each.start, each.end - LAST_OFFSETS)) for each in whole]
    return [
        f"{message.partition()}/{message.offset()}"
        for piece in pieces(logs.kafka, ranges)
        for message in piece
        if why_foreign_result(message, marked_by) is not None
    ]
