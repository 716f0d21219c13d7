"""Compares published results with DuckDB's answers over the same events, on disk, because results may exceed memory.

Result topics are read into tables of records, read-committed, as by any consumer. The relation at an instant is
computed from a table by SQL, decoded by fastavro, and compared as a bag. The measured code does not verify itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from benchmarks.cluster import Cluster, report
from benchmarks.nexmark.answers import decoded
from benchmarks.nexmark.generator import Events
from benchmarks.results import committed_messages
from benchmarks.soak.workload import FED, Query
from connectors.kafka.client.names import OP_HEADER, TS_HEADER
from connectors.kafka.schema_registry.registry import schema_lookup
from operators.core.errors import DsmsError

_PREFIX, _CHUNK = 5, 50_000
_DIGITS = 3
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("gone", pa.bool_()),
    pa.field("ts", pa.int64()),
    pa.field("part", pa.int32()),
    pa.field("place", pa.int64()),
]
_RECORDS = pa.schema(_FIELDS)
#: The rows of the relation, from the records up to an instant: the last one of each key, and those without a key that
#: are not retracted.
_KEYED = (
    "SELECT value FROM (SELECT value, gone, row_number() OVER (PARTITION BY key ORDER BY place DESC) AS newest "
    "FROM {topic} WHERE ts <= {instant}) WHERE newest = 1 AND NOT gone AND value IS NOT NULL"
)
_BAG = (
    "SELECT value FROM (SELECT value, sum(CASE WHEN gone THEN -1 ELSE 1 END)::BIGINT AS count FROM {topic} "
    "WHERE ts <= {instant} GROUP BY value), range(count) WHERE count > 0"
)


@dataclass(frozen=True)
class Verdict:
    """The comparison of the relation of a query at an instant: the number of its rows, of surplus and of missing rows,
    and a note if the comparison failed."""

    query: str
    instant: int
    rows: int
    surplus: int
    missing: int
    note: str = ""

    @property
    def right(self) -> bool:
        """Whether both relations are equal."""
        return not (self.surplus or self.missing or self.note)


@dataclass
class Comparison:
    """The records of result topics in a database on disk, and DuckDB's answers over the events."""

    directory: Path
    _writers: dict[str, Any] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config: dict[str, Any] = {"memory_limit": "3GB", "temp_directory": str(self.directory / "spill")}
        self._database = duckdb.connect(self.directory / "soak.duckdb", config=config)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def read(self, cluster: Cluster, asked: list[Query]) -> None:
        """Reads all records of the results, while the cluster runs."""
        look_up = schema_lookup(cluster.url)
        for query in asked:
            self._database.register("none", _RECORDS.empty_table())
            self._database.execute(f"CREATE TABLE topic_{query.name} AS SELECT * FROM none")
            self.records[query.name] = 0
            for messages in committed_messages(cluster.kafka, f"dsms.{query.name}"):
                if query.name not in self._writers:
                    self._writers.update(_writer(query.name, messages, look_up))
                self.records[query.name] += len(messages)
                self._database.register("more", _table(messages))
                self._database.execute(f"INSERT INTO topic_{query.name} SELECT * FROM more")

    def load(self, events: Events) -> None:
        """Generates all events again and loads them."""
        for kind, stream in FED.items():
            for block in range(events.blocks):
                frame = events.block(kind, block).with_columns(
                    pl.col(name).cast(pl.Datetime("ms")).cast(pl.Datetime("us"))
                    for name, type_ in stream.columns.items()
                    if type_ == "TIMESTAMP"
                )
                self._database.register("more", frame.to_arrow())
                create = f"CREATE TABLE all_{stream.name} AS SELECT * FROM more"
                self._database.execute(create if block == 0 else f"INSERT INTO all_{stream.name} SELECT * FROM more")

    def verdicts(self, asked: list[Query], last: int, instants: list[int]) -> Iterator[Verdict]:
        """Compares all relations at the last instant, and some of them at earlier instants."""
        for instant in [*instants, last]:
            self._set_instant(instant)
            for query in asked:
                if instant == last or query.at_instants:
                    verdict = self._safely(query, instant)
                    if not verdict.right or query.at_instants:
                        report(
                            f"{query.name} at {instant}: {verdict.rows:,} rows, {'right' if verdict.right else verdict}"
                        )
                    yield verdict

    def _set_instant(self, instant: int) -> None:
        at = f"make_timestamp({instant * 1_000})"
        self._database.execute(f"CREATE OR REPLACE TABLE instants AS SELECT {at} AS instant")
        for stream in FED.values():
            self._database.execute(
                f'CREATE OR REPLACE VIEW {stream.name} AS SELECT * FROM all_{stream.name} WHERE "dateTime" <= {at}'
            )

    def _safely(self, query: Query, instant: int) -> Verdict:
        """The verdict. An error becomes its note, so that other comparisons continue."""
        try:
            return self._verdict(query, instant)
        except (DsmsError, duckdb.Error) as error:
            return Verdict(query.name, instant, 0, 0, 0, str(error))

    def _verdict(self, query: Query, instant: int) -> Verdict:
        self._database.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {query.duckdb}")
        described = self._database.execute("DESCRIBE wanted").fetchall()
        self._database.execute("CREATE OR REPLACE TEMP TABLE ours AS SELECT * FROM wanted LIMIT 0")
        self._fold(query, instant)
        columns = ", ".join(
            f'round("{name}", {_DIGITS}) AS "{name}"' if kind in ("DOUBLE", "FLOAT") else f'"{name}"'
            for name, kind, *_ in described
            if not query.untied or name in query.untied
        )
        ours, wanted = (f"SELECT {columns} FROM {table}" for table in ("ours", "wanted"))
        surplus, missing = self._count(f"{ours} EXCEPT ALL {wanted}"), self._count(f"{wanted} EXCEPT ALL {ours}")
        return Verdict(query.name, instant, self._count(wanted), surplus, missing)

    def _fold(self, query: Query, instant: int) -> None:
        """Decodes the relation at an instant into the table `ours`."""
        topic = f"topic_{query.name}"
        keyed = self._count(f"SELECT * FROM {topic} WHERE key IS NOT NULL") > 0
        values = self._database.cursor()
        values.execute((_KEYED if keyed else _BAG).format(topic=topic, instant=instant))
        while rows := values.fetchmany(_CHUNK):
            frame = decoded([value for (value,) in rows], self._writers[query.name], _PREFIX, pl.DataFrame())
            self._database.register("more", frame.to_arrow())
            self._database.execute("INSERT INTO ours BY NAME SELECT * FROM more")

    def _count(self, sql: str) -> int:
        ((count,),) = self._database.execute(f"SELECT count(*) FROM ({sql})").fetchall()
        return int(count)


def _writer(name: str, messages: list[Any], look_up: Any) -> dict[str, Any]:
    ids = (int.from_bytes(message.value()[1:_PREFIX], "big") for message in messages if message.value())
    first = next(ids, None)
    return {} if first is None else {name: look_up(first)}


def _table(messages: list[Any]) -> pa.Table:
    rows = []
    for message in messages:
        headers: dict[str, bytes] = dict(message.headers() or ())
        gone, ts = headers.get(OP_HEADER) == b"-", headers.get(TS_HEADER)
        if ts is not None:
            rows.append((message.key(), message.value(), gone, int(ts), message.partition(), message.offset()))
    columns = list(zip(*rows, strict=True)) or [()] * len(_RECORDS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _RECORDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_RECORDS)
