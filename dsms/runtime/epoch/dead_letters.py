"""The dead letters of an epoch: which are new, and up to where they are written after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.epoch.progress_log import WrittenByOwner, WrittenDeadLetters
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.stages.intake import LATE
from dsms.runtime.stages.lane_step import of_member
from dsms.runtime.stages.source_stage import later_fault_owner, source_of
from dsms.runtime.stages.wire import DeadLetters
from operators.core.delta import BEGINNING, FROM, ORDER
from operators.core.operator import FAULT, FAULT_ROW

#: Added to the reason if the row in fault exists before any record, as the row of an aggregate over no rows does.
NO_RECORD = "(in a row that exists without any record)"


@dataclass(frozen=True)
class DeadRecord:
    """A dead letter ready to be written, with the source, partition and offset of the refused record. Versions of a
    source have one name, and an id each."""

    source: str
    partition: int
    offset: int
    reason: str
    value: bytes
    query: str | None
    source_id: str = ""

    def refused_late_by(self, source: str) -> bool:
        """Whether the source of this name refused the record because it was late."""
        return self.source == source and self.query is None and self.reason.startswith(LATE)


def read_throughout(revision: Revision) -> dict[tuple[str, int], int]:
    """If queries have moved here: the offset below which this fragment has read each source partition from the
    beginning, according to the furthest lane that has done so."""
    upto: dict[tuple[str, int], int] = {}
    if (readers := revision.plan.read_throughout) is None:
        return upto
    for progress in revision.manifest.lanes.values():
        for place, at in progress.places.items():
            if not readers.get(place[0], frozenset()).isdisjoint(progress.queries):
                upto[place] = max(at.offset, upto.get(place, 0))
    return upto


def dead_letters(
    slices: Iterable[DeadLetters],
    published: WrittenByOwner,
    foreign: Collection[tuple[str, int]] = (),
    read_upto: Mapping[tuple[str, int], int] | None = None,
) -> tuple[list[DeadRecord], dict[tuple[str, int], WrittenDeadLetters]]:
    """The new dead letters of all slices, each once, and what is written after them. Lanes that read a range at
    different times refuse the same records. The dead letters of `foreign` owners and partitions are left out, because
    another fragment writes them. So are those of slices beyond `read_upto`, up to where this fragment has read a
    partition from the beginning: a query that has moved here is ahead, and the records between both may have dead
    letters, too, which are written when the other lane comes there."""
    upto = dict(published)
    dead: list[DeadRecord] = []
    for slice_ in sorted(slices, key=lambda sent: (sent.partition, sent.start, sent.owner)):
        place = slice_.owner, slice_.partition
        if place in foreign or slice_.start > (read_upto or {}).get(place, slice_.start):
            continue
        known = upto.get(place, WrittenDeadLetters())
        fresh = [
            DeadRecord(
                slice_.source,
                slice_.partition,
                record.offset,
                record.reason,
                record.value,
                record.query,
                source_of(slice_.owner),
            )
            for record in slice_.refused
            if record.offset >= known.offset
        ]
        dead += fresh
        upto[place] = WrittenDeadLetters(max(known.offset, slice_.end), known.count + len(fresh))
    return dead, upto


def fault_records(
    output: Output, lane: Lane, rows_in_fault: Iterable[tuple[int, pl.DataFrame]], published: int
) -> list[tuple[str, DeadRecord]]:
    """The dead letters of a query's rows in fault from the instant `published` on, each with its owner. The rows are
    given by vertex."""
    below, over_links = lane.reported[output.id], output.sink is not None and bool(output.sink.links)
    records = []
    for vertex, rows in rows_in_fault:
        if vertex in below:
            faults = of_member(rows, output).filter(pl.col(FROM) >= published).sort(FROM, ORDER)
            for begin, order, reason, text in faults.select(FROM, ORDER, FAULT, FAULT_ROW).iter_rows():
                if (cause := lane.cause(output, order)) is not None:
                    source, partition, offset = cause
                    why = reason if begin > BEGINNING else f"{reason} {NO_RECORD}"
                    place = source.name, partition, offset
                    record = DeadRecord(*place, why, text.encode(), output.first_name, source.id)
                    records.append((later_fault_owner(output.id, source.id, over_links=over_links), record))
    return records


def written_after_faults(
    faults: Sequence[tuple[str, DeadRecord]], upto: WrittenByOwner
) -> dict[tuple[str, int], WrittenDeadLetters]:
    """What is written after a query's faults. Only the counts change: whether a fault is new depends on its instant,
    not on an offset."""
    counts = Counter((owner, fault.partition) for owner, fault in faults)
    before = {key: upto.get(key, WrittenDeadLetters()) for key in counts}
    return {key: replace(written, count=written.count + counts[key]) for key, written in before.items()}
