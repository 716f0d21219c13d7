"""Compaction and retention: what a broker removes from a log in the background."""

from __future__ import annotations

from connectors.simulation.kafka.batches import Batch
from connectors.simulation.kafka.log import PartitionLog


def compact(log: PartitionLog, before_ms: int | None = None) -> None:
    """Keeps only the last committed record of each key, below the last stable offset, and before the first batch with a
    record from `before_ms` on. Tombstones are kept."""
    young = (batch.base_offset for batch in log.batches if before_ms is not None and batch.max_time_ms >= before_ms)
    stable = min(log.stable, next(young, log.stable))
    visible = [batch for batch in log.committed(log.batches) if batch.last_offset < stable]
    last: dict[bytes | None, int] = {}
    for batch in visible:
        for record in batch.records():
            last[record.key] = record.offset
    kept = set(last.values())
    seen = {batch.base_offset for batch in visible}
    cleaned = []
    for batch in log.batches:
        if batch.last_offset >= stable or batch.control:
            cleaned.append(batch)
        elif batch.base_offset in seen:
            cleaned += _kept(batch, kept)
    log.replace(cleaned)


def expire(log: PartitionLog, before_ms: int) -> None:
    """Deletes the batches at the beginning whose records are all older than a time."""
    start = log.start
    for batch in log.batches:
        if batch.max_time_ms >= before_ms or batch.last_offset >= log.stable:
            break
        start = batch.last_offset + 1
    if start > log.start:
        log.delete_before(start)


def _kept(batch: Batch, kept: set[int]) -> list[Batch]:
    """The batch with only its kept records; nothing if none is left."""
    offsets = {record.offset for record in batch.records()}
    if not offsets & kept:
        return []
    return [batch] if offsets <= kept else [batch.keeping(kept)]
