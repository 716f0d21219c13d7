"""Admits a slice piece by piece, so that only one piece is in memory as records, however long the slice is."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import replace

from connectors.formats.binary_column import BinaryColumn
from connectors.formats.record_formats import FORMATS
from connectors.kafka.records.log_pieces import LogPiece, LogPieces, MessagePiece
from dsms.measurements.work import Work
from dsms.model.objects import Source
from dsms.planner.physical.parts.links import Link
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.awaited_schemas import Wait, first_awaited
from dsms.runtime.stages.intake import Admitted, in_sequence
from dsms.runtime.stages.link_intake import LinkIntake
from dsms.runtime.stages.record_reading import WriterSchema, arrivals_of, intake_of
from operators.core.errors import DsmsError


def admit_slice(
    source: Source, slice_: Slice, writer: WriterSchema, pieces: LogPieces, columns: frozenset[str]
) -> SliceIntake | LinkIntake | DsmsError:
    """The slice's intake after all of its pieces, which keeps only `columns`; or the first error while reading them."""
    intake = LinkIntake(source, slice_) if isinstance(source, Link) else SliceIntake(source, slice_, writer, columns)
    for piece in pieces:
        if isinstance(piece, DsmsError):
            return piece
        readable = intake.readable(piece)
        intake.take(readable, int(readable.offsets[-1]) if len(readable) else slice_.start)
        del piece, readable  # frees it before the next one is read
        if intake.wait is not None:
            break
    intake.take_heartbeats()
    return intake


class SliceIntake:
    """The records that have been admitted from a slice so far."""

    def __init__(self, source: Source, slice_: Slice, writer: WriterSchema, columns: frozenset[str]) -> None:
        self._source, self._partition, self._columns = source, slice_.partition, columns
        self._writer = writer if FORMATS[source.format].awaits_schemas else None
        #: The offset at which reading has to stop for now; None: the slice can be read to its end.
        self.wait: Wait | None = None
        self._intake = intake_of(source, writer)
        self._skipped = frozenset(slice_.skipped)
        self._clock, self._heartbeats = slice_.clock, slice_.heartbeats
        self._parts: list[Admitted] = []
        self._records = self._bytes = self._busy_ns = self._passed = 0

    def readable(self, piece: LogPiece) -> LogPiece:
        """The records before the first one whose schema is not available yet; `wait` then gives that record."""
        if self._writer is None:
            return piece
        bodies = piece.values()
        if not isinstance(bodies, BinaryColumn) and None in bodies:
            bodies = [key or b"" if value is None else value for key, value in zip(piece.keys(), bodies, strict=True)]
        if self._skipped:  # the schemas of skipped records are not needed
            bodies = [
                b"" if at in self._skipped else body for at, body in zip(piece.offsets.tolist(), bodies, strict=True)
            ]
        if (first := first_awaited(bodies, self._writer)) is None:
            return piece
        self.wait = Wait(int(piece.offsets[first[0]]), first[1])
        return piece.before(self.wait.offset)

    def take(self, piece: LogPiece, upto: int) -> None:
        """Admits the next records, with the logged heartbeats at offsets of at most `upto`."""
        began = time.perf_counter_ns()
        count = bisect_right(self._heartbeats, upto, key=lambda beat: beat.offset)
        heartbeats, self._heartbeats = self._heartbeats[:count], self._heartbeats[count:]
        arrivals = arrivals_of(self._source, self._partition, piece, heartbeats, self._skipped)
        part = self._intake.admit(arrivals, self._clock)
        self._parts.append(replace(part, delta=part.delta.select_columns(self._columns)))
        self._passed += part.instants_advanced(self._clock)
        self._clock = part.clock
        self._records += len(piece)
        self._busy_ns += time.perf_counter_ns() - began
        self._bytes += piece.size

    def take_heartbeats(self) -> None:
        """Admits the remaining heartbeats, which are after all records; if reading stops early, those up to there."""
        if self._heartbeats:
            self.take(MessagePiece([]), self._heartbeats[-1].offset if self.wait is None else self.wait.offset)

    def admitted(self) -> Admitted:
        """What was admitted from all pieces."""
        return in_sequence(self._parts)

    def work(self, lanes: int) -> Work:
        """The work of reading for each of the `lanes`, which share its time."""
        rows = sum(len(part.delta) for part in self._parts)
        instants = self._passed / self._source.partitions
        return Work((self._records,), rows, self._busy_ns // lanes, bytes_in=self._bytes, instants=instants)
