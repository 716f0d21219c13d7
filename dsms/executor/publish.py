"""An epoch as Kafka records: results and dead letters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from connectors.kafka.epoch_writer import Headers, Records
from connectors.kafka.names import OP_HEADER, TS_HEADER, dead_letter_topic
from dsms.executor.dead import DeadRecord
from dsms.executor.encoding import KEY, VALUE
from dsms.executor.epoch import Written
from dsms.plan.lane import Output
from operators.delta import FROM, partition_of
from operators.stream_output import INSERT, OP

_PARTITION, _RESULT = "__partition", "__result"
#: So many rows become records at a time.
_PIECE = 20_000


def result_records(written: Written) -> Iterator[Records]:
    """The changes, result by result: header `dsms-ts` is the instant, `dsms-op` is there unless it is `+`.

    Rows without a key go to the result partition of their source partition, so their order is kept; partition by
    partition, because the order between partitions is seen by nobody and the producer is quicker. A long result comes
    in pieces, to bound the memory of their records.
    """
    placed = written.changes if KEY in written.changes.columns else _placed(written)
    ends = np.cumsum([count for _, count in written.counts])
    for start in range(0, placed.height, _PIECE):
        piece = placed[start : start + _PIECE]
        edges = np.clip(ends - start, 0, piece.height).tolist()
        yield from _records([output for output, _ in written.counts], piece, [0, *edges])


def _records(outputs: Sequence[Output], piece: pl.DataFrame, edges: Sequence[int]) -> Iterator[Records]:
    """The rows of each result, which lie between two edges."""
    columns = [piece[name].to_list() if name in piece.columns else None for name in (KEY, VALUE, _PARTITION)]
    columns.append(_headers(piece))
    for output, (start, end) in zip(outputs, itertools.pairwise(edges), strict=True):
        if start == end:
            continue
        keys, values, partitions, headers = (each and each[start:end] for each in columns)
        assert output.sink is not None
        yield Records(output.sink.topic, keys or [None] * (end - start), values or [], headers, partitions)


def _placed(written: Written) -> pl.DataFrame:
    first = written.counts[0][0].sink if written.counts else None
    number = partition_of() % (first.partitions if first else 1)
    each = np.repeat(np.arange(len(written.counts)), [count for _, count in written.counts])
    placed = written.changes.with_columns(number.alias(_PARTITION), pl.Series(_RESULT, each))
    return placed.sort(_RESULT, _PARTITION, maintain_order=True)


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
