"""An epoch as Kafka records: results and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from connectors.kafka.epoch_writer import Headers, Records
from connectors.kafka.names import OP_HEADER, TS_HEADER, dead_letter_topic
from dsms.executor.dead import DeadRecord
from dsms.executor.encoding import KEY, VALUE
from dsms.executor.epoch import Written
from dsms.plan.lane import Output
from operators.delta import FROM, ORDER, in_time, partition_of
from operators.operator import MEMBER
from operators.stream_output import DELETE, INSERT, OP

_PARTITION = "__partition"
#: So many rows become records at a time.
_PIECE = 20_000


def result_records(written: Written) -> Iterator[Records]:
    """The changes, each result in its one order: header `dsms-ts` is the instant, `dsms-op` is there unless it is `+`.

    Rows without a key go to the result partition of their source partition, so their order is kept; partition by
    partition, because the order between partitions is seen by nobody and the producer is quicker. A long result comes
    in pieces, to bound the memory of their records.
    """
    for part in _parts(written):
        ordered = _ordered(part)
        for start in range(0, ordered.height, _PIECE):
            yield from _records(written.outputs, ordered[start : start + _PIECE])


def _parts(written: Written) -> Iterator[pl.DataFrame]:
    """What is put in order at a time. Without a key, the rows of a partition, unless there are many results."""
    if KEY in written.changes.columns:
        yield written.changes
        return
    sink = next(iter(written.outputs.values())).sink
    assert sink is not None
    number = written.changes.select((partition_of() % sink.partitions).alias(_PARTITION)).to_series()
    if MEMBER in written.changes.columns:
        yield written.changes.with_columns(number)
        return
    for partition in number.unique().sort().to_list():
        yield written.changes.filter(number == partition).with_columns(pl.lit(partition).alias(_PARTITION))


def _ordered(changes: pl.DataFrame) -> pl.DataFrame:
    """In the one order of each result log: (instant, order, `-` first, key, value)."""
    ordered = in_time(changes)
    tied = (pl.col(FROM) == pl.col(FROM).shift(1)) & (pl.col(ORDER) == pl.col(ORDER).shift(1))
    if ordered.select(tied.any()).item():
        key = [KEY] if KEY in changes.columns else []
        ordered = ordered.sort(FROM, ORDER, pl.col(OP) != DELETE, *key, VALUE)
    if MEMBER not in changes.columns:
        return ordered
    return ordered.sort([name for name in (MEMBER, _PARTITION) if name in changes.columns], maintain_order=True)


def _records(outputs: Mapping[int | None, Output], piece: pl.DataFrame) -> Iterator[Records]:
    """The rows of each result, which stand together."""
    columns = [piece[name].to_list() if name in piece.columns else None for name in (KEY, VALUE, _PARTITION)]
    columns.append(_headers(piece))
    start = 0
    for count, member in _members(piece):
        keys, values, partitions, headers = (each and each[start : start + count] for each in columns)
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
        mine = [letter for letter in dead if letter.source == source]
        keys = [f"{letter.partition}/{letter.offset}".encode() for letter in mine]
        yield Records(
            dead_letter_topic(source),
            keys,
            [letter.value for letter in mine],
            [_provenance(letter, topics[source]) for letter in mine],
        )


def _provenance(letter: DeadRecord, topic: str) -> Headers:
    query: Headers = [("dsms-query", letter.query.encode())] if letter.query else []
    return [
        ("dsms-error", letter.reason.encode()), ("dsms-source", letter.source.encode()), ("dsms-topic", topic.encode()),
        ("dsms-partition", str(letter.partition).encode()), ("dsms-offset", str(letter.offset).encode()), *query,
    ]  # fmt: skip
