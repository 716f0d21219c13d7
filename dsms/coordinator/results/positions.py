"""Tokens: the position of a reader in a result, and the positions of published records. Clients see plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from operators.core.errors import UserError

_FAR = 2**62
#: A token with more spans would be too long for a URL. Spans are then joined, and include other records in between.
MAX_SPANS = 64
#: The most records in a call that publishes, and so in its token.
MAX_RECORDS = 10_000
_RESULT = re.compile(r"(o\d{1,18}):(\d{1,19}(?:,\d{1,19})*)", re.ASCII)
_RECORDS = re.compile(r"(o\d{1,18}):(\d{1,9}/\d{1,19}(?:-\d{1,19})?(?:,\d{1,9}/\d{1,19}(?:-\d{1,19})?)*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResultPosition:
    """The id of a result's query, and the next offset of each partition of the result.

    >>> str(ResultPosition("o3", (17, 0)))
    'o3:17,0'
    >>> parse_position("o3:17,0") == ResultPosition("o3", (17, 0))
    True
    """

    query: str
    next: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.query}:{','.join(map(str, self.next))}"

    def after(self, partition: int, following: int) -> ResultPosition:
        """The position after everything before offset `following` of a partition was read.

        >>> str(ResultPosition("o3", (17, 0)).after(1, 9))
        'o3:17,9'
        """
        before, after = self.other_offsets(partition)
        return ResultPosition(self.query, (*before, following, *after))

    def other_offsets(self, partition: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The offsets of the partitions before and after this one."""
        return self.next[:partition], self.next[partition + 1 :]


@dataclass(frozen=True, slots=True)
class Span:
    """Records of a partition, from the first offset to the last, inclusive."""

    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.first}" + (f"-{self.last}" if self.last > self.first else "")

    def holds(self, partition: int, offset: int) -> bool:
        """Whether the span includes a record."""
        return partition == self.partition and self.first <= offset <= self.last


@dataclass(frozen=True, slots=True)
class RecordToken:
    """The id of a source, and records that were published to it.

    >>> str(RecordToken("o1", (Span(0, 5, 7), Span(1, 2, 2))))
    'o1:0/5-7,1/2'
    >>> parse_records("o1:0/5-7,1/2").spans[0]
    Span(partition=0, first=5, last=7)
    """

    source: str
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return f"{self.source}:{','.join(map(str, self.spans))}"


def token_of(source: str, places: Iterable[tuple[int, int]]) -> RecordToken:
    """The token of records at (partition, offset) positions.

    >>> str(token_of("o1", [(0, 4), (1, 9), (0, 5), (0, 8)]))
    'o1:0/4-5,0/8,1/9'
    """
    ordered = sorted(set(places))
    spans = tuple(_spans(ordered, 1))
    return RecordToken(source, spans if len(spans) <= MAX_SPANS else tuple(_spans(ordered, _FAR)))


def _spans(ordered: Sequence[tuple[int, int]], gap: int) -> Iterator[Span]:
    """Spans of positions whose offsets are at most `gap` apart: with a gap of 1, the offsets 4, 5, 8 give 4-5 and 8."""
    start = 0
    ends = [
        index
        for index, ((partition, offset), (next_partition, next_offset)) in enumerate(pairwise(ordered), 1)
        if partition != next_partition or next_offset - offset > gap
    ]
    for end in [*ends, len(ordered)]:
        yield Span(ordered[start][0], ordered[start][1], ordered[end - 1][1])
        start = end


def parse_position(text: str) -> ResultPosition:
    """Parses a position. Raises UserError if the text is not one.

    >>> parse_position("o3:17;0")
    Traceback (most recent call last):
    operators.core.errors.UserError: "o3:17;0" is not a position in a result; send a token back unchanged
    """
    match = _RESULT.fullmatch(text)
    offsets = [int(part) for part in match[2].split(",")] if match else [_FAR]
    if not match or max(offsets) >= _FAR:
        raise UserError(f'"{text[:80]}" is not a position in a result', hint="send a token back unchanged")
    return ResultPosition(match[1], tuple(offsets))


def parse_records(text: str) -> RecordToken:
    """Parses a token of published records. Raises UserError if the text is not one."""
    match = _RECORDS.fullmatch(text)
    spans = tuple(map(_span, match[2].split(","))) if match else ()
    if not match or any(not span.first <= span.last < _FAR for span in spans):
        raise UserError(f'"{text[:80]}" is not a token of published records', hint="send a token back unchanged")
    return RecordToken(match[1], spans)


def _span(text: str) -> Span:
    partition, _, offsets = text.partition("/")
    first, _, last = offsets.partition("-")
    return Span(int(partition), int(first), int(last or first))
