"""NEXMark's streams and the side input: their columns as SQL, Avro and Arrow schemas, and their rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.generator import Events

INTEGER, TEXT, INSTANT = "BIGINT", "VARCHAR", "TIMESTAMP"
SIDE_ROWS = 10_000
_AVRO: dict[str, Any] = {
    INTEGER: "long",
    TEXT: "string",
    INSTANT: {"type": "long", "logicalType": "timestamp-millis"},
}


@dataclass(frozen=True)
class Stream:
    """A stream over a topic. Instants are milliseconds in frames and records, and TIMESTAMPs in SQL."""

    name: str
    topic: str
    columns: dict[str, str]
    #: The key of the relation; "" for a stream of events.
    key: str = ""

    def declaration(self, topic: str, suffix: str, options: str) -> str:
        """The statements that declare the stream in this system, with a suffix to its name and the options of its
        source."""
        name = self.name + suffix
        listed = ", ".join(f'"{column}" {kind} NOT NULL' for column, kind in self.columns.items())
        return (
            f'REGISTER SOURCE {name}Source ({listed}) FROM "{topic}" {options}; '
            f"CREATE STREAM {name} OVER {name}Source KEY {self.key or 'NULL'}"
        )

    def writer(self) -> dict[str, Any]:
        """The Avro schema of the records."""
        fields = [{"name": column, "type": _AVRO[kind]} for column, kind in self.columns.items()]
        return {"type": "record", "name": self.name, "fields": fields}

    def stored(self) -> pa.Schema:
        """The columns with the types that are encoded."""
        types = {name: pa.string() if kind == TEXT else pa.int64() for name, kind in self.columns.items()}
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])

    def chunks(self, events: Events) -> Iterator[pl.DataFrame]:
        """The rows, in the order of their instants."""
        return iter((side(events),)) if self is SIDE else events.chunks(self.topic)

    def rows(self, events: Events) -> pl.DataFrame:
        """All rows, with TIMESTAMPs."""
        frame = pl.concat(self.chunks(events))
        instants = [name for name, kind in self.columns.items() if kind == INSTANT]
        return frame.with_columns(pl.col(instants).cast(pl.Datetime("ms")).cast(pl.Datetime("us")))


def side(events: Events) -> pl.DataFrame:
    """The side input: code n has the label n. Its rows have the instant before the first event."""
    codes = pl.int_range(SIDE_ROWS, eager=True).alias("code")
    before = pl.lit(events.timeline.first_ms - 1, pl.Int64).alias("dateTime")
    return pl.DataFrame([codes, codes.cast(pl.String).alias("label")]).with_columns(before)


PERSON = Stream(
    "Person", "person",
    {
        "id": INTEGER, "name": TEXT, "emailAddress": TEXT, "creditCard": TEXT, "city": TEXT, "state": TEXT,
        "dateTime": INSTANT, "extra": TEXT,
    },
)  # fmt: skip
AUCTION = Stream(
    "Auction", "auction",
    {
        "id": INTEGER, "itemName": TEXT, "description": TEXT, "initialBid": INTEGER, "reserve": INTEGER,
        "dateTime": INSTANT, "expires": INSTANT, "seller": INTEGER, "category": INTEGER, "extra": TEXT,
    },
)  # fmt: skip
BID = Stream(
    "Bid", "bid",
    {
        "auction": INTEGER, "bidder": INTEGER, "price": INTEGER, "channel": TEXT, "url": TEXT, "dateTime": INSTANT,
        "extra": TEXT,
    },
)  # fmt: skip
SIDE = Stream("Side", "side", {"code": INTEGER, "label": TEXT, "dateTime": INSTANT}, key="code")
STREAMS = {stream.name: stream for stream in (PERSON, AUCTION, BID, SIDE)}
