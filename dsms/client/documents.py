"""What the coordinator answers, typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Document = dict[str, Any]
Row = Mapping[str, Any]


class Relation(msgspec.Struct, frozen=True):
    """The rows of a view, query or table at a final instant; `total` counts also those that were not sent.

    Values are JSON's: decimals and instants are text, bytes are base64.

    >>> found = Relation("hot", 7, ["room", "t"], [["a", 105], ["b", 81]], 2)
    >>> list(found)[0], found.polars()["t"].sum(), found.arrow().num_rows
    ({'room': 'a', 't': 105}, 186, 2)
    """

    name: str
    at: int
    columns: list[str]
    rows: list[list[Any]]
    total: int

    def __iter__(self) -> Iterator[Document]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def polars(self) -> pl.DataFrame:
        """As a Polars frame, with the types that the values show."""
        import polars as pl

        return pl.DataFrame(self.rows, schema=self.columns, orient="row", infer_schema_length=None)

    def arrow(self) -> pa.Table:
        """As an Arrow table, with the types that the values show."""
        return self.polars().to_arrow()


class Change(msgspec.Struct, frozen=True):
    """A change of a result: a row comes (`+`), is another version of the row with its key (`u`), or goes (`-`).

    Of a row that goes from a result with a key, only the key is told: then `row` is None. `token` is the position
    after the change.
    """

    op: Literal["+", "u", "-"]
    ts: int | None
    partition: int
    offset: int
    token: str
    row: Document | None = None
    key: Document | None = None

    @property
    def values(self) -> Document:
        """The row, or of a row that is gone what is known of it.

        >>> Change("-", 5, 0, 3, "o3:4", key={"room": "a"}).values
        {'room': 'a'}
        """
        return self.row if self.row is not None else self.key or {}


class Place(msgspec.Struct, frozen=True):
    """Where a published record stands; `token` is that of it alone."""

    partition: int
    offset: int
    token: str


class Token(msgspec.Struct, frozen=True):
    """Published records: where they stand in the order in which they came, and what `wait` takes for all of them."""

    records: list[Place]
    token: str | None

    def __str__(self) -> str:
        return self.token or ""


class RefusedRecord(msgspec.Struct, frozen=True):
    """A published record that is in no result; `query` is None where the source refused it."""

    partition: int
    offset: int
    reason: str
    query: str | None


class Cover(msgspec.Struct, frozen=True):
    """How far a result is with published records: see `GET /v1/queries/{name}/covers`."""

    covered: bool
    processed: bool
    instant: int | None
    frontier: int | None
    offsets: dict[str, int]
    refused: list[RefusedRecord]
    error: str | None
