"""The documents that the coordinator answers with, as typed structs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dsms.client.frames import arrow_table, polars_frame

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Document = dict[str, Any]
Row = Mapping[str, Any]


class Relation(msgspec.Struct, frozen=True):
    """The rows of a view, query or table at a final instant; `total` also counts rows that were not sent.

    Values are those of JSON: decimals and timestamps are text, bytes are base64. Frames and tables have the types of
    the columns, which `types` names as SQL does.

    >>> hot = Relation("hot", 7, ["room", "t"], [["a", "105.5"], ["b", "81.0"]], 2, ["VARCHAR", "DECIMAL(5, 1)"])
    >>> list(hot)[0], hot.polars()["t"].sum(), hot.arrow().num_rows
    ({'room': 'a', 't': '105.5'}, Decimal('186.5'), 2)
    """

    name: str
    at: int
    columns: list[str]
    rows: list[list[Any]]
    total: int
    types: list[str] = []

    def __iter__(self) -> Iterator[Document]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def polars(self) -> pl.DataFrame:
        """The relation as a Polars frame."""
        return polars_frame(self, self.columns, self.types)

    def arrow(self) -> pa.Table:
        """The relation as an Arrow table."""
        return arrow_table(self, self.columns, self.types)

    def pandas(self) -> Any:
        """The relation as a pandas frame. Whole numbers in a column with NULLs become floats, as is usual in pandas."""
        return self.arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The first rows, as notebooks show them."""
        html: str = self.polars()._repr_html_()
        return f"<p>{escape(self.name)} at {self.at}: {self.total:,} rows</p>{html}"


class Change(msgspec.Struct, frozen=True):
    """A change of a result: a row is added (`+`), replaces the row of its key (`u`), or is removed (`-`).

    If the result has a key, a removal has only the key: then `row` is None. `token` is the position after the change.
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
        """The row, or the key of a removed row.

        >>> Change("-", 5, 0, 3, "o3:4", key={"room": "a"}).values
        {'room': 'a'}
        """
        return self.row if self.row is not None else self.key or {}


class RecordPosition(msgspec.Struct, frozen=True):
    """The position of a published record; `token` represents this record alone."""

    partition: int
    offset: int
    token: str


class Token(msgspec.Struct, frozen=True):
    """The positions of published records, in the order in which they were sent, and the token of all for `wait`."""

    records: list[RecordPosition]
    token: str | None

    def __str__(self) -> str:
        return self.token or ""


class RefusedRecord(msgspec.Struct, frozen=True):
    """A published record that is in no result; `query` is None if the source refused it."""

    partition: int
    offset: int
    reason: str
    query: str | None


class Cover(msgspec.Struct, frozen=True):
    """How far a result covers published records: see `GET /v1/queries/{name}/covers`."""

    covered: bool
    processed: bool
    instant: int | None
    frontier: int | None
    offsets: dict[str, int]
    refused: list[RefusedRecord]
    error: str | None
