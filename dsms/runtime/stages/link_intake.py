"""The intake of a link, an internal topic between two parts of a query.

Its records are frames of elements, and heartbeats of the part that sent them.
"""

from __future__ import annotations

import time
from dataclasses import replace

from connectors.kafka.records.log_pieces import LogPiece
from dsms.measurements.work import Work
from dsms.planner.physical.parts.links import Link
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.awaited_schemas import Wait
from dsms.runtime.stages.intake import Admitted
from dsms.runtime.stages.record_reading import heartbeats_in
from operators.core.decoding import Malformed
from operators.core.delta import Delta, polars_schema, union_all
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_or_broken


class LinkIntake:
    """The elements that have been read from a slice of a link. No record is late or refused, because the sender has
    already removed those. Raises ExternalError if a record is not from the sender: skipping it could make results
    wrong.
    """

    #: Always None: no record of a link has to wait.
    wait: Wait | None = None

    def __init__(self, link: Link, slice_: Slice) -> None:
        self._link, self._slice, self._clock = link, slice_, slice_.clock
        self._empty = Delta.empty(polars_schema(link.schema))
        self._parts: list[Delta] = []
        self._records = self._bytes = self._busy_ns = 0

    def readable(self, piece: LogPiece) -> LogPiece:
        """The whole piece."""
        return piece

    def take(self, piece: LogPiece, upto: int) -> None:
        """Reads the frames and heartbeats of a piece."""
        began, values = time.perf_counter_ns(), list(piece.values())
        beats = heartbeats_in(piece, values) if None in values else {}
        for at, value in enumerate(values):
            if at not in beats:
                self._parts.append(self._elements(value, int(piece.offsets[at])))
        self._clock = replace(self._clock, frontier=max([self._clock.frontier, *beats.values()]))
        self._records += len(piece)
        self._bytes += piece.size
        self._busy_ns += time.perf_counter_ns() - began

    def take_heartbeats(self) -> None:
        """Does nothing: links have no logged heartbeats, only those among their records."""

    def admitted(self) -> Admitted:
        """All elements, and the clock after them."""
        return Admitted(union_all([*self._parts, self._empty]), (), self._clock)

    def work(self, lanes: int) -> Work:
        """The work of reading for each of the `lanes`, which share its time."""
        rows = sum(map(len, self._parts))
        return Work((rows,), rows, self._busy_ns // lanes, bytes_in=self._bytes)

    def _elements(self, value: bytes | None, offset: int) -> Delta:
        wanted = self._empty.frame.schema
        try:
            frame = frame_or_broken(value or b"")
            if frame.schema != wanted:
                raise Malformed(f"columns {', '.join(frame.columns)} instead of {', '.join(wanted)}")
        except Malformed as error:
            place = f'offset {offset} of partition {self._slice.partition} of topic "{self._link.topic}"'
            raise ExternalError(f"{place} is not a valid record of the link: {error}") from error
        return Delta(frame)
