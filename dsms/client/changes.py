"""The changes of a result as they arrive: one by one, or as tables."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dsms.client.documents import Change
from dsms.client.feed import Feed
from dsms.client.frames import arrow_table, polars_frame

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

#: The most changes in a table.
MOST = 10_000
#: The columns of a table before those of the result.
_COLUMNS, _TYPES = ["op", "ts"], ["VARCHAR", "BIGINT"]
#: The rows, columns and types of a table.
_TableParts = tuple[list[dict[str, Any]], list[str], list[str]]


class Changes(Iterator[Change]):
    """The changes of a result, each once, as an iterator. Its tables continue after the changes that the iterator has
    already returned."""

    def __init__(self, feed: Feed, parts: Generator[list[Change], None, None]) -> None:
        self._feed, self._parts = feed, parts
        self._rest: list[Change] = []

    def __next__(self) -> Change:
        while not self._rest:
            self._rest = next(self._parts)[::-1]
        return self._rest.pop()

    def close(self) -> None:
        """Ends following: the connection is closed."""
        self._parts.close()

    def batches(self) -> Iterator[list[Change]]:
        """The changes as lists, one for each received part. The token of a list's last change is the position after the
        list."""
        rest, self._rest = self._rest[::-1], []
        return (part for part in itertools.chain([rest], self._parts) if part)

    def rows_of(self, changes: Sequence[Change]) -> pa.Table:
        """The rows of changes of this result as an Arrow table. A removal from a keyed result has only the key."""
        return arrow_table([change.values for change in changes], self._feed.columns, self._feed.types)

    def arrow(self, most: int = MOST) -> Iterator[pa.Table]:
        """Arrow tables of the received parts, each with at most `most` changes. Their columns are `op`, `ts` and those
        of the result; a removal from a keyed result has only the key."""
        return (arrow_table(*part) for part in self._tables(most))

    def polars(self, most: int = MOST) -> Iterator[pl.DataFrame]:
        """The same as Polars frames."""
        return (polars_frame(*part) for part in self._tables(most))

    def _tables(self, most: int) -> Iterator[_TableParts]:
        for part in self.batches():
            yield from _tables(part, self._feed, most)


class AsyncChanges(AsyncIterator[Change]):
    """The same for asyncio."""

    def __init__(self, feed: Feed, parts: AsyncGenerator[list[Change], None]) -> None:
        self._feed, self._parts = feed, parts
        self._rest: list[Change] = []

    async def __anext__(self) -> Change:
        while not self._rest:
            self._rest = (await anext(self._parts))[::-1]
        return self._rest.pop()

    async def aclose(self) -> None:
        """Ends following: the connection is closed."""
        await self._parts.aclose()

    async def arrow(self, most: int = MOST) -> AsyncIterator[pa.Table]:
        """Arrow tables, as `Changes.arrow` gives them."""
        async for part in self._tables(most):
            yield arrow_table(*part)

    async def polars(self, most: int = MOST) -> AsyncIterator[pl.DataFrame]:
        """The same as Polars frames."""
        async for part in self._tables(most):
            yield polars_frame(*part)

    async def _tables(self, most: int) -> AsyncIterator[_TableParts]:
        rest, self._rest = self._rest[::-1], []
        for table in _tables(rest, self._feed, most):
            yield table
        async for part in self._parts:
            for table in _tables(part, self._feed, most):
                yield table


def _tables(changes: Sequence[Change], feed: Feed, most: int) -> Iterator[_TableParts]:
    """The rows, columns and types of tables with at most `most` changes each."""
    columns, types = [*_COLUMNS, *feed.columns], [*_TYPES, *feed.types]
    for start in range(0, len(changes), most):
        piece = changes[start : start + most]
        yield [{**change.values, "op": change.op, "ts": change.ts} for change in piece], columns, types
