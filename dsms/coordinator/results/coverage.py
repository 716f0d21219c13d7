"""Read-your-writes: decides whether a result covers published records.

The law: a result covers a record once the query has processed the record's offset and the query's frontier has passed
the record's instant. The executor reports both only after it has committed an epoch. When it does, the result topic
contains the effect of the record, and the effect is final.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.kafka.records.log_pieces import MessagePiece
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.coordinator.results.positions import RecordToken, Span
from dsms.coordinator.results.result_log import ResultLog
from dsms.model.objects import Query, Source
from dsms.placement.leases import ExecutorStatus, QueryStatus
from dsms.runtime.stages.record_reading import WriterSchema, arrivals_of, intake_of
from operators.core.clock import PartitionClock
from operators.core.delta import BEGINNING, FROM
from operators.core.errors import UserError

#: How old the reports of executors may be, in seconds: one read serves all waiting clients.
_FRESH_S = 0.1
#: The most records in a token, the most that are read at once, and the number of dead letters that are searched.
_MAX_OFFSETS = 200_000
_PIECE = 20_000
MAX_DEAD_LETTERS = 2_000

ReadDeadLetters = Callable[[Source, int], list[dict[str, Any]]]


class LaneReports(Protocol):
    """Reports how far queries have progressed."""

    def lane(self, query: str) -> QueryStatus | None:
        """The last report about a query, given by id, from the executor that runs it; None if no executor runs it."""
        ...


class SharedLaneReports:
    """The reports of all executors, read once for all callers that ask at about the same time."""

    def __init__(self, executors: Callable[[], Mapping[str, ExecutorStatus]]) -> None:
        self._executors = executors
        self._looking = threading.Lock()
        self._seen: Mapping[str, ExecutorStatus] = {}
        self._at = float("-inf")

    def lane(self, query: str) -> QueryStatus | None:
        """The last report about a query from the executor that runs it; None if no executor runs it."""
        with self._looking:
            if time.monotonic() - self._at > _FRESH_S:
                self._seen, self._at = self._executors(), time.monotonic()
            lanes = [status.lanes[query] for status in self._seen.values() if query in status.lanes]
        return lanes[0] if lanes else None


@dataclass(frozen=True)
class CoverageQuestion:
    """The question whether a query covers records of a source, of which it reads one version or several, `sources`.
    `instant` is the greatest instant of the records, None if no version can decode any of them."""

    query: Query
    sources: tuple[Source, ...]
    spans: tuple[Span, ...]
    instant: int | None


@dataclass(frozen=True)
class CoverageReport:
    """How far a result has progressed: whether it covers the records, whether all of them are processed, its frontier,
    the next offset by partition, the refused records, and why the query has stopped."""

    covered: bool
    processed: bool = False
    frontier: int | None = None
    offsets: Mapping[int, int] | None = None
    refused: Sequence[Mapping[str, Any]] = ()
    error: str | None = None


@dataclass(frozen=True)
class Coverage:
    """Answers whether a result covers records."""

    log: ResultLog
    lanes: LaneReports
    dead_letters: ReadDeadLetters
    writer: Callable[[Source], WriterSchema]

    def question(self, query: Query, sources: tuple[Source, ...], token: RecordToken) -> CoverageQuestion | None:
        """The question for a token of one of the versions of a source, with the greatest instant of the records; None
        while not all of them are committed. Raises UserError if the question cannot be answered."""
        source = sources[0]  # all versions read the same topic
        if source.latent:
            hint = "these instants cannot be computed from the records alone; wait for a frontier instead"
            raise UserError(f'source "{source.name}" gives records their instants on arrival', hint=hint)
        if sum(span.last - span.first + 1 for span in token.spans) > _MAX_OFFSETS:
            raise UserError(f"the token covers more than {_MAX_OFFSETS} records")
        places = sorted({(source.topic, span.partition) for span in token.spans})
        if any(partition >= source.partitions for _, partition in places):
            raise UserError(
                f'source "{source.name}" has {source.partitions} partitions', hint="send the token unchanged"
            )
        starts, ends = self.log.starts(places), self.log.ends(places)
        for span in token.spans:
            if span.first < starts.get((source.topic, span.partition), 0):
                raise UserError(f'topic "{source.topic}" no longer has record {span}')
            if span.last >= ends.get((source.topic, span.partition), 0):
                return None
        read = [(version, span) for version in sources for span in token.spans]
        instants = [at for version, span in read if (at := self._instant(version, span)) is not None]
        return CoverageQuestion(query, sources, token.spans, max(instants, default=None))

    def cover(self, question: CoverageQuestion) -> CoverageReport:
        """How far the result has progressed."""
        lane = self.lanes.lane(question.query.id)
        if lane is None:
            return CoverageReport(covered=False)
        cover = cover_of(question, lane)
        if not cover.processed:
            return cover
        letters = [letter for each in question.sources for letter in self.dead_letters(each, MAX_DEAD_LETTERS)]
        refused = refusals(question, letters)
        return CoverageReport(cover.covered, cover.processed, cover.frontier, cover.offsets, refused, cover.error)

    def _instant(self, source: Source, span: Span) -> int | None:
        """The greatest instant among the records that the source can decode."""
        instants: list[int] = []
        for first in range(span.first, span.last + 1, _PIECE):
            end = min(first + _PIECE, span.last + 1)
            messages = self.log.read(OffsetRange(source.topic, span.partition, first, end))
            arrivals = arrivals_of(source, span.partition, MessagePiece(messages), ())
            rows = intake_of(source, self.writer(source)).admit(arrivals, PartitionClock()).delta.frame
            instants += [int(rows[FROM].max())] if rows.height else []  # type: ignore[arg-type]
        return max(instants, default=None)


def cover_of(question: CoverageQuestion, lane: QueryStatus) -> CoverageReport:
    """Whether a query covers the records, given the last report about it.

    >>> source = Source(name="s", id="o1", sql="", columns=(), topic="s")
    >>> query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    >>> question = CoverageQuestion(query, (source,), (Span(0, 4, 6),), instant=9)
    >>> [cover_of(question, QueryStatus(at, {"o1/0": read})).covered for at, read in ((9, 7), (10, 6), (10, 7))]
    [False, False, True]
    """
    wanted = {span.partition for span in question.spans}
    offsets = {
        partition: min(lane.offsets.get(f"{source.id}/{partition}", 0) for source in question.sources)
        for partition in sorted(wanted)
    }
    processed = all(offsets[span.partition] > span.last for span in question.spans)
    frontier = BEGINNING if lane.frontier is None else lane.frontier
    passed = question.instant is None or frontier > question.instant
    return CoverageReport(processed and passed, processed, lane.frontier, offsets, error=lane.error)


def refusals(question: CoverageQuestion, letters: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The dead letters about the records: the source refused them, or an expression of the query failed on them. A
    record that several versions of the source refused is listed once."""
    found: dict[object, Mapping[str, Any]] = {}
    for letter in letters:
        held = any(span.holds(letter["partition"], letter["offset"]) for span in question.spans)
        if held and letter["query"] in (None, question.query.first_name):
            place = letter["partition"], letter["offset"], letter["query"] and (letter["query"], letter["reason"])
            found.setdefault(place, {name: letter[name] for name in ("partition", "offset", "reason", "query")})
    return list(found.values())
