"""An epoch as Kafka records: results and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import polars as pl

from connectors.kafka.epoch_writer import Headers, Records
from connectors.kafka.names import OP_HEADER, TS_HEADER, dead_letter_topic, internal_topic
from dsms.physical.lane import Output
from dsms.runtime.epoch.dead_letters import DeadRecord
from dsms.runtime.epoch.epoch import Epoch, Written
from dsms.runtime.epoch.progress_log import Progress, Published
from dsms.runtime.stages.encoding import KEY, VALUE
from operators.core.delta import FROM, ORDER, in_time_order, partition_of
from operators.core.operator import MEMBER
from operators.streams.stream_output import DELETE, INSERT, OP

_PARTITION = "__partition"
#: Which row of the changes it is.
_AT = "__at"
#: So many rows become records at a time.
PIECE_ROWS = 20_000


def result_records(written: Written) -> Iterator[Records]:
    """The changes, each result in its one order: header `dsms-ts` is the instant, `dsms-op` is there unless it is `+`.

    Rows without a key go to the result partition of their source partition, so their order is kept; partition by
    partition, because the order between partitions is seen by nobody and the producer is quicker. A long result comes
    in pieces, to bound the memory of their records; only where its rows stand is put in order as a whole.
    """
    for part in _parts(written):
        ordered = _ordered(part, written.changes)
        for piece in ordered.iter_slices(PIECE_ROWS):
            rows = written.changes[piece[_AT]]
            yield from _records(written.outputs, rows, piece.get_column(_PARTITION, default=None))


def _parts(written: Written) -> Iterator[pl.DataFrame]:
    """The places of the rows that are put in order at a time. Without a key, of those of a partition, unless there are
    many results."""
    changes = written.changes
    places = changes.select(FROM, ORDER, *([MEMBER] if MEMBER in changes.columns else [])).with_row_index(_AT)
    if KEY in changes.columns:
        yield places
        return
    sink = next(iter(written.outputs.values())).sink
    assert sink is not None
    places = places.with_columns((partition_of() % sink.partitions).alias(_PARTITION))
    yield from [places] if MEMBER in changes.columns else places.partition_by(_PARTITION)


def _ordered(places: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """In the one order of each result log: (instant, order, `-` first, key, value)."""
    ordered = in_time_order(places)
    tied = (pl.col(FROM) == pl.col(FROM).shift(1)) & (pl.col(ORDER) == pl.col(ORDER).shift(1))
    if ordered.select(tied.any()).item():
        key = [KEY] if KEY in changes.columns else []
        rows = changes[ordered[_AT]]
        ordered = ordered[rows.select(pl.arg_sort_by(FROM, ORDER, pl.col(OP) != DELETE, *key, VALUE)).to_series()]
    if MEMBER not in changes.columns:
        return ordered
    return ordered.sort([name for name in (MEMBER, _PARTITION) if name in places.columns], maintain_order=True)


def _records(
    outputs: Mapping[int | None, Output], piece: pl.DataFrame, partition: pl.Series | None
) -> Iterator[Records]:
    """The rows of each result, which stand together."""
    sources = (piece.get_column(KEY, default=None), piece[VALUE], partition)
    columns = [None if column is None else column.to_list() for column in sources]
    columns.append(_headers(piece))
    start = 0
    for count, member in _members(piece):
        keys, values, partitions, headers = (column and column[start : start + count] for column in columns)
        sink = outputs[member].sink
        assert sink is not None
        yield Records(sink.topic, keys or [None] * count, values or [], headers, partitions)
        start += count


def _members(piece: pl.DataFrame) -> Sequence[tuple[int, int | None]]:
    """How many rows are each one's, in turn."""
    return piece[MEMBER].rle().struct.unnest().rows() if MEMBER in piece.columns else [(piece.height, None)]


def _headers(changes: pl.DataFrame) -> list[Headers]:
    """The headers of each change; changes of one instant and operation share them: making them is what costs."""
    if (changes[OP] == INSERT).all():
        inserted = {ts: _change_headers(INSERT, ts) for ts in changes[FROM].unique().to_list()}
        return list(map(inserted.__getitem__, changes[FROM].to_list()))
    shared = {(op, ts): _change_headers(op, ts) for op, ts in changes.select(OP, FROM).unique().iter_rows()}
    return list(map(shared.__getitem__, zip(changes[OP].to_list(), changes[FROM].to_list(), strict=True)))


def _change_headers(op: str, ts: int) -> Headers:
    instant = (TS_HEADER, str(ts).encode())
    return [instant] if op == INSERT else [(OP_HEADER, op.encode()), instant]


def dead_records(dead: tuple[DeadRecord, ...], topics: Mapping[str, str]) -> Iterator[Records]:
    """The dead letters, by source topic: the value as it came, and where it came from in headers."""
    for source in dict.fromkeys(letter.source for letter in dead):
        letters = [letter for letter in dead if letter.source == source]
        keys = [f"{letter.partition}/{letter.offset}".encode() for letter in letters]
        yield Records(
            dead_letter_topic(source),
            keys,
            [letter.value for letter in letters],
            [_provenance(letter, topics[source]) for letter in letters],
        )


def _provenance(letter: DeadRecord, topic: str) -> Headers:
    query: Headers = [("dsms-query", letter.query.encode())] if letter.query else []
    return [
        ("dsms-error", letter.reason.encode()),
        ("dsms-source", letter.source.encode()),
        ("dsms-topic", topic.encode()),
        ("dsms-partition", str(letter.partition).encode()),
        ("dsms-offset", str(letter.offset).encode()),
        *query,
    ]


def progress_records(cluster: str, epoch: Epoch, published: Published) -> Records:
    """What is published once the transaction is: the frontier by result partition, the offset by owner of dead
    letters."""
    entries: dict[bytes, bytes] = {}
    for query, result in epoch.results.items():
        sink = result.output.sink
        if sink is not None and result.frontier > published.upto(query):
            body = msgspec.json.encode(Progress(query, result.frontier, epoch.manifest.epoch))
            entries |= {f"{sink.topic}/{partition}".encode(): body for partition in range(sink.partitions)}
    for (owner, partition), mark in epoch.dead_upto.items():
        if published.dead.get((owner, partition)) != mark:
            entries[f"dead/{owner}/{partition}".encode()] = msgspec.json.encode((mark.offset, mark.count))
    return Records(internal_topic(cluster, "progress"), list(entries), list(entries.values()))
