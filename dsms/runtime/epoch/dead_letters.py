"""Dead letters of an epoch: which of them are new, and what is known to be written after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from dsms.physical.lane import Lane, Output
from dsms.runtime.epoch.progress_log import DeadMark, DeadMarks
from dsms.runtime.stages.frame_files import unpacked
from dsms.runtime.stages.lane_step import of_member
from dsms.runtime.stages.source_task import Letters, fault_owner
from operators.core.delta import FROM, ORDER, origin
from operators.core.operator import FAULT, FAULT_ROW


@dataclass(frozen=True)
class DeadRecord:
    """A dead letter ready to be written: which source it belongs to, and where the refused record stands."""

    source: str
    partition: int
    offset: int
    reason: str
    value: bytes
    query: str | None


def dead_letters(
    rows: Sequence[Mapping[str, Any]], published: DeadMarks, foreign: Collection[str] = ()
) -> tuple[list[DeadRecord], dict[tuple[str, int], DeadMark]]:
    """The letters of all slices, each once: lanes that read one range at different times refuse the same records. Those
    of `foreign` owners are written elsewhere."""
    upto = dict(published)
    dead: list[DeadRecord] = []
    decoded = [(row["source_partition"], msgspec.msgpack.decode(row["blob"], type=Letters)) for row in rows]
    for partition, slice_ in sorted(decoded, key=lambda item: (item[0], item[1].start, item[1].owner)):
        if slice_.owner in foreign:
            continue
        known = upto.get((slice_.owner, partition), DeadMark())
        fresh = [
            DeadRecord(slice_.source, partition, offset, reason, value, query)
            for offset, reason, value, query in slice_.letters
            if offset >= known.offset
        ]
        dead += fresh
        upto[(slice_.owner, partition)] = DeadMark(max(known.offset, slice_.end), known.count + len(fresh))
    return dead, upto


#: Rows in fault of the target stages, with the vertex that reports them.
Faults = Sequence[tuple[int, pl.DataFrame]]


def faults_of(rows: Sequence[Mapping[str, Any]]) -> Faults:
    """What the target stages reported."""
    return [(row["edge"], unpacked(row["blob"])) for row in rows]


def fault_records(output: Output, lane: Lane, found: Faults, published: int) -> list[tuple[str, DeadRecord]]:
    """A query's rows in fault from an instant on, each with the owner of its dead letter."""
    below = lane.flow.below[output.vertex]
    records = []
    for vertex, frame in found:
        if vertex in below:
            mine = of_member(frame, output)
            faults = mine.filter(pl.col(FROM) >= published).sort(FROM, ORDER)
            for order, reason, text in faults.select(ORDER, FAULT, FAULT_ROW).iter_rows():
                leaf, partition, offset = origin(order)
                source = lane.sources[leaf]
                record = DeadRecord(source.name, partition, offset, reason, text.encode(), output.name)
                records.append((fault_owner(output.id, source.id), record))
    return records


def counted(faults: Sequence[tuple[str, DeadRecord]], upto: DeadMarks) -> dict[tuple[str, int], DeadMark]:
    """The marks of a query whose faults are written by instant: they count, but say nothing of offsets."""
    counts = Counter((owner, fault.partition) for owner, fault in faults)
    marks = {key: (upto.get(key, DeadMark()), count) for key, count in counts.items()}
    return {key: DeadMark(mark.offset, mark.count + count) for key, (mark, count) in marks.items()}
