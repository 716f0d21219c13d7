"""Feeds: the changes of results for many readers at once, as they are committed.

One loop asks for the end offsets of all followed results, whatever the number of readers. A few threads read pieces of
bounded size, each topic always in the same thread. A feed reads its next piece when its reader has taken the previous
one, so a reader that is slow or has stopped costs the memory of one piece and no thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, TypeVar
from zlib import crc32

import structlog

from connectors.alarms import Alarms
from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.changes import Place
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.coordinator.results.change_documents import Followed, Line, lines_of
from dsms.coordinator.results.events import Changes, Ended, FeedFormat, KeepAlive, Started, rendered
from dsms.coordinator.results.positions import ResultPosition
from dsms.coordinator.results.result_log import ResultLog
from operators.core.errors import DsmsError, UserError

log = structlog.get_logger()
From = Literal["earliest", "latest"]
_T = TypeVar("_T")


class PositionGone(UserError):
    """A feed cannot continue from the position: it belongs to another result, or its records are deleted."""


class TooManyFeeds(UserError):
    """The limit of feeds is reached."""


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """The pauses in seconds between requests for the end offsets (`poll_s`) and before a keep-alive (`keep_alive_s`),
    and the limits: threads, feeds, bytes and offsets of a piece, and pieces that are cached for other readers."""

    poll_s: float = 0.1
    keep_alive_s: float = 15.0
    threads: int = 4
    feeds: int = 2_000
    piece_bytes: int = 128 * 1024
    piece_offsets: int = 1_024
    kept_pieces: int = 32


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """The request of a reader: a result, the format, where to begin, and whether to wait for later changes."""

    result: Followed
    feed_format: FeedFormat
    after: ResultPosition | None = None
    start: From = "earliest"
    follow: bool = True


@dataclass
class _Watch:
    """The end offsets of the followed results, shared by all feeds; `news` is set when they change."""

    followed: Counter[str] = field(default_factory=Counter)
    #: The end offsets by the id of the result, as a topic may be deleted and re-created under the same name.
    ends: dict[str, Mapping[Partition, int]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    poller: asyncio.Task[None] | None = None


class Feeds:
    """All feeds of a coordinator. `current_id` returns the current id of a result: another id if its query was
    replaced, None if it was dropped."""

    def __init__(
        self,
        source: ResultLog,
        current_id: Callable[[Followed], str | None],
        settings: FeedSettings | None = None,
        alarms: Alarms | None = None,
    ) -> None:
        self._log, self._current_id = source, current_id
        self._alarms = alarms or Alarms()
        self._settings = settings or FeedSettings()
        self._watch = _Watch()
        self._results: dict[str, Followed] = {}
        self._threads = [ThreadPoolExecutor(1, f"feed-{number}") for number in range(self._settings.threads)]
        self._asking = ThreadPoolExecutor(2, "feed-ends")
        self._lines = _RecentValues[tuple[str, OffsetRange], tuple[Line, ...]](self._settings.kept_pieces)
        self._texts = _RecentValues[tuple[OffsetRange, ResultPosition, FeedFormat], bytes](self._settings.kept_pieces)
        self._offsets: dict[str, int] = {}

    def close(self) -> None:
        """Ends the threads."""
        for pool in (*self._threads, self._asking):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def count(self) -> int:
        """The number of open feeds."""
        return self._watch.followed.total()

    async def opened(self, request: FeedRequest) -> AsyncGenerator[bytes, None]:
        """Opens a feed and returns its text, event by event. Raises errors in the request before the first event."""
        if self.count >= self._settings.feeds:
            raise TooManyFeeds(f"there are {self.count} readers of results", hint="try again later")
        at = await self._ask(self._start, request)
        upto = None if request.follow else await self._ask(self._log.settled, request.result.topic)
        return self._events(request, at, upto)

    async def _events(
        self, request: FeedRequest, at: ResultPosition, upto: Mapping[Partition, int] | None
    ) -> AsyncGenerator[bytes, None]:
        result, write = request.result, partial(rendered, request.feed_format)
        with self._watching(result):
            yield write(Started(result, at))
            while True:
                news = self._watch.news
                ends = self._watch.ends.get(result.id, {}) if upto is None else upto
                if not self._present(result):
                    yield write(_ended(result, at, self._current_id(result)))
                    return
                piece = self._next(result, at, ends)
                if piece is None and upto is not None:
                    yield write(Ended("end", at, "all changes up to the time of the request were sent"))
                    return
                if piece is None:
                    if not await self._await(news):
                        yield write(KeepAlive())
                    continue
                try:
                    text = await self._read(request, piece, at)
                except DsmsError as error:
                    if not self._present(result):
                        continue
                    yield write(Ended("failed", at, str(error)))
                    return
                if text:
                    yield text
                at = at.after(piece.partition, piece.end)

    def _present(self, result: Followed) -> bool:
        return self._current_id(result) == result.id

    async def _await(self, news: asyncio.Event) -> bool:
        """Waits for news; False if it is time for a keep-alive first."""
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), self._settings.keep_alive_s)
            return True
        return False

    def _start(self, request: FeedRequest) -> ResultPosition:
        """The position where a feed starts. Raises PositionGone if the requested position belongs to another result or
        its records are deleted."""
        result, after = request.result, request.after
        starts = self._log.starts(result.topic_partitions)
        if after is None:
            offsets = self._log.ends(result.topic_partitions) if request.start == "latest" else starts
            return ResultPosition(result.id, tuple(offsets.get(place, 0) for place in result.topic_partitions))
        if after.query != result.id or len(after.next) != result.partitions:
            hint = 'the result was re-created since; start again with "from=earliest"'
            raise PositionGone(f'"{after}" is not a position in "{result.name}"', hint=hint)
        ends = self._log.ends(result.topic_partitions)
        for place, offset in zip(result.topic_partitions, after.next, strict=True):
            if not starts.get(place, 0) <= offset <= max(ends.get(place, offset), starts.get(place, 0)):
                hint = 'start again with "from=earliest"'
                raise PositionGone(f'"{result.name}" has no records at {place[1]}/{offset}', hint=hint)
        return after

    def _next(self, result: Followed, at: ResultPosition, ends: Mapping[Partition, int]) -> OffsetRange | None:
        """The next piece, of the partition that is furthest behind; None if there is nothing to read.

        A piece ends at a multiple of the size, so that readers share pieces wherever they began: with a size of 8, a
        reader at offset 5 reads 5 to 8, then 8 to 16.
        """
        unread = [(ends.get(place, 0) - at.next[place[1]], place) for place in result.topic_partitions]
        count, place = max(unread)
        if count <= 0:
            return None
        start, size = at.next[place[1]], self._offsets.get(result.id, self._settings.piece_offsets // 8)
        return OffsetRange(*place, start, min(ends[place], (start // size + 1) * size))

    async def _read(self, request: FeedRequest, piece: OffsetRange, at: ResultPosition) -> bytes:
        pool = self._threads[crc32(request.result.topic.encode()) % len(self._threads)]
        return await asyncio.get_running_loop().run_in_executor(pool, self._text, request, piece, at)

    def _text(self, request: FeedRequest, piece: OffsetRange, at: ResultPosition) -> bytes:
        """The changes of a piece as text. Readers at the same position share the text, so it is written once."""
        place = (piece, at, request.feed_format)
        kept = self._texts.get(place)
        if kept is None:
            lines = self._piece(request.result, piece)
            kept = self._texts.keep(place, rendered(request.feed_format, Changes(lines, at)) if lines else b"")
        return kept

    def _piece(self, result: Followed, piece: OffsetRange) -> tuple[Line, ...]:
        """The changes of a piece, read now or cached from an earlier reader. Each topic is read in one thread."""
        kept = self._lines.get((result.id, piece))
        if kept is None:
            lines = lines_of(result, self._log.read(piece), self._refused)
            kept = self._lines.keep((result.id, piece), tuple(lines))
            self._offsets[result.id] = self._fitting(piece, sum(len(line.document) for line in kept))
        return kept

    def _refused(self, place: Place, reason: str) -> None:
        self._alarms.raise_at(place.topic, reason, place.partition, place.offset)

    def _fitting(self, piece: OffsetRange, size: int) -> int:
        """The number of offsets, a power of two, of a piece of the wanted bytes, if records are as large as in this
        piece of `size` bytes. With 100 bytes a record, 128 KiB hold 1310 records: the piece has 1024 offsets."""
        record_bytes = max(size // (piece.end - piece.start), 1)
        most = min(self._settings.piece_offsets, max(self._settings.piece_bytes // record_bytes, 1))
        return 1 << (most.bit_length() - 1)

    async def _ask(self, call: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._asking, call, *arguments)

    @contextmanager
    def _watching(self, result: Followed) -> Iterator[None]:
        watch = self._watch
        watch.followed[result.id] += 1
        self._results[result.id] = result
        if watch.poller is None or watch.poller.done():
            watch.poller = asyncio.get_running_loop().create_task(self._look())
        try:
            yield
        finally:
            watch.followed[result.id] -= 1
            if not watch.followed[result.id]:
                self._forget(result)

    def _forget(self, result: Followed) -> None:
        del self._watch.followed[result.id], self._results[result.id]
        self._watch.ends.pop(result.id, None)
        self._offsets.pop(result.id, None)

    async def _look(self) -> None:
        """Asks for the end offsets of results, repeatedly, as long as there are readers."""
        watch = self._watch
        while watch.followed:
            results = [result for result in self._results.values() if self._present(result)]
            try:
                ends = await self._ask(
                    self._log.ends, [place for result in results for place in result.topic_partitions]
                )
            except DsmsError as error:
                log.warning("results cannot be followed now", reason=str(error))
            else:
                self._tell(
                    {result.id: {p: ends[p] for p in result.topic_partitions if p in ends} for result in results}
                )
            await asyncio.sleep(self._settings.poll_s)

    def _tell(self, ends: Mapping[str, Mapping[Partition, int]]) -> None:
        """Wakes the feeds when a result has grown or is no longer known."""
        watch = self._watch
        followed = {result: offsets for result, offsets in ends.items() if result in self._results}
        if followed != watch.ends or len(followed) < len(self._results):
            watch.ends = followed
            watch.news, previous = asyncio.Event(), watch.news
            previous.set()


def _ended(result: Followed, at: ResultPosition, current_id: str | None) -> Ended:
    """The end of a feed whose result was dropped or now has another id."""
    if current_id is None:
        return Ended("dropped", at, f'"{result.name}" was dropped')
    return Ended(
        "replaced", ResultPosition(current_id, at.next), f'"{result.name}" was replaced; continue after the token'
    )


_K = TypeVar("_K")


class _RecentValues(Generic[_K, _T]):
    """A bounded cache of the most recently added values, by key. Thread-safe.

    >>> kept = _RecentValues[str, int](1)
    >>> kept.keep("a", 1), kept.keep("b", 2), kept.get("a"), kept.get("b")
    (1, 2, None, 2)
    """

    def __init__(self, most: int) -> None:
        self._most, self._values, self._lock = most, OrderedDict[_K, _T](), threading.Lock()

    def get(self, key: _K) -> _T | None:
        """The value of a key; None if it was never added or was dropped since."""
        with self._lock:
            return self._values.get(key)

    def keep(self, key: _K, value: _T) -> _T:
        """Adds a value, drops the oldest ones, and returns the value."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value
