"""Feeds: the changes of results for many readers at once, as they are committed.

One look a turn at the ends of all results that somebody follows, whatever the number of readers; a few threads read
pieces of bounded size, one topic always in the same thread. A feed reads its next piece when its reader has taken the
one before, so a reader that is slow, or stands still, holds one piece and costs no thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, TypeVar
from zlib import crc32

import structlog

from connectors.kafka.range_reader import OffsetRange
from connectors.kafka.topics import Partition
from dsms.coordinator.results.change_documents import Followed, Line, lines_of
from dsms.coordinator.results.events import Beat, Changes, Ended, Notation, Started, rendered
from dsms.coordinator.results.positions import ResultPosition
from dsms.coordinator.results.result_log import ResultLog
from operators.core.errors import DsmsError, UserError

log = structlog.get_logger()
From = Literal["earliest", "latest"]
_T = TypeVar("_T")


class PositionGone(UserError):
    """A position that cannot be gone on from: the result is another one now, or its records are gone."""


class TooMany(UserError):
    """There are as many feeds as there may be."""


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """Pauses between looks and heartbeats, and the bounds: threads, feeds, bytes and offsets of a piece, and pieces
    that are kept for others."""

    look_s: float = 0.1
    beat_s: float = 15.0
    threads: int = 4
    feeds: int = 2_000
    piece_bytes: int = 128 * 1024
    piece_offsets: int = 1_024
    kept_pieces: int = 32


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asks for: a result, how it is written, from where, and whether it waits for what is to come."""

    result: Followed
    notation: Notation
    after: ResultPosition | None = None
    start: From = "earliest"
    follow: bool = True


@dataclass
class _Watch:
    """What all feeds know of the log, and how they are told that they know more."""

    followed: Counter[str] = field(default_factory=Counter)
    #: By result: a topic may be made anew under its name.
    ends: dict[str, Mapping[Partition, int]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    looking: asyncio.Task[None] | None = None


class Feeds:
    """All feeds of a coordinator. `known` tells the id under which a result is known now: another one where its query
    was replaced, None where it was dropped."""

    def __init__(
        self, source: ResultLog, known: Callable[[Followed], str | None], settings: FeedSettings | None = None
    ) -> None:
        self._log, self._known = source, known
        self._settings = settings or FeedSettings()
        self._watch = _Watch()
        self._results: dict[str, Followed] = {}
        self._threads = [ThreadPoolExecutor(1, f"feed-{number}") for number in range(self._settings.threads)]
        self._asking = ThreadPoolExecutor(2, "feed-ends")
        self._lines = _Kept[tuple[str, OffsetRange], tuple[Line, ...]](self._settings.kept_pieces)
        self._texts = _Kept[tuple[OffsetRange, ResultPosition, Notation], bytes](self._settings.kept_pieces)
        self._offsets: dict[str, int] = {}

    def close(self) -> None:
        """Ends the threads."""
        for pool in (*self._threads, self._asking):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def count(self) -> int:
        """How many feeds there are."""
        return self._watch.followed.total()

    async def opened(self, wanted: Wanted) -> AsyncIterator[bytes]:
        """The text of a feed, event by event; what is wrong with the request is raised before there are any."""
        if self.count >= self._settings.feeds:
            raise TooMany(f"there are {self.count} readers of results", hint="try again later")
        at = await self._ask(self._start, wanted)
        upto = None if wanted.follow else await self._ask(self._log.settled, wanted.result.topic)
        return self._events(wanted, at, upto)

    async def _events(
        self, wanted: Wanted, at: ResultPosition, upto: Mapping[Partition, int] | None
    ) -> AsyncIterator[bytes]:
        result, write = wanted.result, partial(rendered, wanted.notation)
        with self._watching(result):
            yield write(Started(result, at))
            while True:
                news = self._watch.news
                ends = self._watch.ends.get(result.id, {}) if upto is None else upto
                if not self._present(result):
                    yield write(_parted(result, at, self._known(result)))
                    return
                piece = self._next(result, at, ends)
                if piece is None and upto is not None:
                    yield write(Ended("end", at, "everything up to the time of asking was told"))
                    return
                if piece is None:
                    if not await self._told(news):
                        yield write(Beat())
                    continue
                try:
                    text = await self._read(wanted, piece, at)
                except DsmsError as error:
                    if not self._present(result):
                        continue
                    yield write(Ended("failed", at, str(error)))
                    return
                if text:
                    yield text
                at = at.after(piece.partition, piece.end)

    def _present(self, result: Followed) -> bool:
        return self._known(result) == result.id

    async def _told(self, news: asyncio.Event) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), self._settings.beat_s)
            return True
        return False

    def _start(self, wanted: Wanted) -> ResultPosition:
        """Where a feed starts. A position older than what the log still holds cannot be gone on from."""
        result, after = wanted.result, wanted.after
        starts = self._log.starts(result.places)
        if after is None:
            known = self._log.ends(result.places) if wanted.start == "latest" else starts
            return ResultPosition(result.id, tuple(known.get(place, 0) for place in result.places))
        if after.query != result.id or len(after.next) != result.partitions:
            hint = 'it was made anew since; begin again with "from=earliest"'
            raise PositionGone(f'"{after}" is no position in "{result.name}"', hint=hint)
        ends = self._log.ends(result.places)
        for place, offset in zip(result.places, after.next, strict=True):
            if not starts.get(place, 0) <= offset <= max(ends.get(place, offset), starts.get(place, 0)):
                hint = 'begin again with "from=earliest"'
                raise PositionGone(f'"{result.name}" holds no records at {place[1]}/{offset}', hint=hint)
        return after

    def _next(self, result: Followed, at: ResultPosition, ends: Mapping[Partition, int]) -> OffsetRange | None:
        """The next piece of the partition that is furthest behind. Pieces begin and end at the same offsets for all
        readers, as far as they can."""
        behind = [(ends.get(place, 0) - at.next[place[1]], place) for place in result.places]
        most, place = max(behind)
        if most <= 0:
            return None
        start, size = at.next[place[1]], self._offsets.get(result.id, self._settings.piece_offsets // 8)
        return OffsetRange(*place, start, min(ends[place], (start // size + 1) * size))

    async def _read(self, wanted: Wanted, piece: OffsetRange, at: ResultPosition) -> bytes:
        pool = self._threads[crc32(wanted.result.topic.encode()) % len(self._threads)]
        return await asyncio.get_running_loop().run_in_executor(pool, self._text, wanted, piece, at)

    def _text(self, wanted: Wanted, piece: OffsetRange, at: ResultPosition) -> bytes:
        """The changes of a piece as text: readers at one position share it, so what many follow is written once."""
        place = (piece, at, wanted.notation)
        kept = self._texts.get(place)
        if kept is None:
            lines = self._piece(wanted.result, piece)
            kept = self._texts.keep(place, rendered(wanted.notation, Changes(lines, at)) if lines else b"")
        return kept

    def _piece(self, result: Followed, piece: OffsetRange) -> tuple[Line, ...]:
        """The changes of a piece, read or kept from a reader before; one topic is read in one thread."""
        kept = self._lines.get((result.id, piece))
        if kept is None:
            kept = self._lines.keep((result.id, piece), tuple(lines_of(result, self._log.read(piece))))
            self._offsets[result.id] = self._fitting(piece, sum(len(line.document) for line in kept))
        return kept

    def _fitting(self, piece: OffsetRange, size: int) -> int:
        """How many offsets, a power of two, make a piece of the wanted size, as this one had so many bytes."""
        each = max(size // (piece.end - piece.start), 1)
        most = min(self._settings.piece_offsets, max(self._settings.piece_bytes // each, 1))
        return 1 << (most.bit_length() - 1)

    async def _ask(self, call: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._asking, call, *arguments)

    @contextmanager
    def _watching(self, result: Followed) -> Iterator[None]:
        watch = self._watch
        watch.followed[result.id] += 1
        self._results[result.id] = result
        if watch.looking is None or watch.looking.done():
            watch.looking = asyncio.get_running_loop().create_task(self._look())
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
        """Looks at the ends as long as anybody follows."""
        watch = self._watch
        while watch.followed:
            results = [one for one in self._results.values() if self._present(one)]
            try:
                found = await self._ask(self._log.ends, [place for one in results for place in one.places])
            except DsmsError as error:
                log.warning("results cannot be followed now", reason=str(error))
            else:
                self._tell({one.id: {p: found[p] for p in one.places if p in found} for one in results})
            await asyncio.sleep(self._settings.look_s)

    def _tell(self, ends: Mapping[str, Mapping[Partition, int]]) -> None:
        """Wakes the feeds when a result has grown or is there no more."""
        watch = self._watch
        known = {result: found for result, found in ends.items() if result in self._results}
        if known != watch.ends or len(known) < len(self._results):
            watch.ends = known
            watch.news, told = asyncio.Event(), watch.news
            told.set()


def _parted(result: Followed, at: ResultPosition, known: str | None) -> Ended:
    """The end of a feed whose result is not known under its id any more."""
    if known is None:
        return Ended("dropped", at, f'"{result.name}" was dropped')
    return Ended("replaced", ResultPosition(known, at.next), f'"{result.name}" was replaced; go on behind the token')


_K = TypeVar("_K")


class _Kept(Generic[_K, _T]):
    """The latest values by key, for several threads.

    >>> kept = _Kept[str, int](1)
    >>> kept.keep("a", 1), kept.keep("b", 2), kept.get("a"), kept.get("b")
    (1, 2, None, 2)
    """

    def __init__(self, most: int) -> None:
        self._most, self._held, self._lock = most, OrderedDict[_K, _T](), threading.Lock()

    def get(self, key: _K) -> _T | None:
        """The value of a key, if it is still there."""
        with self._lock:
            return self._held.get(key)

    def keep(self, key: _K, value: _T) -> _T:
        """The value, kept."""
        with self._lock:
            self._held[key] = value
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return value
