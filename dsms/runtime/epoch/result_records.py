"""An epoch as Kafka records: results, dead letters and progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import polars as pl

from connectors.kafka.client.names import (
    BY_HEADER,
    ERROR_HEADER,
    HEARTBEAT_HEADER,
    OP_HEADER,
    SOURCE_ID_HEADER,
    TS_HEADER,
)
from connectors.kafka.logs.internal_log import writer_headers
from connectors.kafka.records.record_columns import Headers, RecordColumns, Records
from dsms.model.objects import Source
from dsms.planner.physical.lane import Output
from dsms.runtime.epoch.dead_letters import DeadRecord
from dsms.runtime.epoch.epoch import Epoch, UnpublishedChanges
from dsms.runtime.epoch.link_records import link_records
from dsms.runtime.epoch.progress_log import Published, dead_key, progress_of, result_key
from dsms.runtime.stages.encoding import KEY, VALUE
from operators.core.delta import BEGINNING, FROM, ORDER, in_time_order, partition_of
from operators.core.operator import MEMBER
from operators.streams.stream_output import DELETE, INSERT, OP

_PARTITION = "__partition"
#: The writer that records of results name. It names no executor, since the log must not depend on which one wrote it.
_RESULTS = "results"
#: The index of a row in the changes.
_AT = "__at"
#: The number of rows that are turned into records at a time.
PIECE_ROWS = 20_000


def result_records(written: UnpublishedChanges) -> Iterator[RecordColumns]:
    """The changes of each result, in the order of its log. The header `dsms-ts` is the instant, `dsms-op` the operation
    unless it is `+`, and `dsms-by` the cluster and the writer.

    Rows without a key go to the result partition of their source partition, which keeps their order. They are written
    partition by partition, which is faster; their order across partitions does not matter. Only the indices of rows are
    sorted as a whole; the records are taken in pieces, to bound their memory.
    """
    if (output := written.outputs.get(None)) is not None and output.link is not None:
        yield from link_records(written.changes, output.link)
        return
    for part in _parts(written):
        ordered = _ordered(part, written.changes)
        for piece in ordered.iter_slices(PIECE_ROWS):
            rows = written.changes[piece[_AT]]
            yield from _records(written.outputs, rows, piece.get_column(_PARTITION, default=None))


def _parts(written: UnpublishedChanges) -> Iterator[pl.DataFrame]:
    """The rows (instant, order, index) that are sorted together: those of each result partition if there is a single
    result without a key, otherwise all."""
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
    """The rows in the order of each result's log: (instant, order, `-` first, key, value)."""
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
) -> Iterator[RecordColumns]:
    """The records of each result. The rows of a result are consecutive."""
    headers = _headers(piece, next(filter(None, map(_writer_name, outputs.values())), None))
    records = RecordColumns("", piece[VALUE], piece.get_column(KEY, default=None), headers, partition)
    start = 0
    for count, member in _members(piece):
        sink = outputs[member].sink
        assert sink is not None
        yield replace(records.slice(start, count), topic=sink.topic)
        start += count


def _members(piece: pl.DataFrame) -> Sequence[tuple[int, int | None]]:
    """The number of consecutive rows of each member, and the member."""
    return piece[MEMBER].rle().struct.unnest().rows() if MEMBER in piece.columns else [(piece.height, None)]


def _writer_name(output: Output) -> bytes | None:
    """The cluster and writer that the records of a result name; None if they name none."""
    marked_by = None if output.sink is None else output.sink.marked_by
    return None if marked_by is None else dict(writer_headers(marked_by, _RESULTS))[BY_HEADER]


def _headers(changes: pl.DataFrame, writer: bytes | None) -> dict[str, pl.Series]:
    """The headers of the changes: the operation unless it is `+`, the instant, and the cluster and writer."""
    columns = changes.select(
        pl.when(pl.col(OP) != INSERT).then(pl.col(OP)).cast(pl.Binary).alias(OP_HEADER),
        pl.col(FROM).cast(pl.String).cast(pl.Binary).alias(TS_HEADER),
    )
    headers = {name: columns[name] for name in (OP_HEADER, TS_HEADER) if columns[name].null_count() < len(columns)}
    by = {} if writer is None else {BY_HEADER: pl.repeat(writer, len(columns), dtype=pl.Binary, eager=True)}
    return headers | by


def dead_records(dead: tuple[DeadRecord, ...], sources: Mapping[str, Source]) -> Iterator[Records]:
    """The dead letters as records, source by source: the original value, with its origin in headers. `sources` are
    given by id."""
    for source in dict.fromkeys(record.source_id for record in dead):
        letters = [letter for letter in dead if letter.source_id == source]
        keys = [f"{letter.partition}/{letter.offset}".encode() for letter in letters]
        yield Records(
            sources[source].dead_letter_topic,
            keys,
            [letter.value for letter in letters],
            [_provenance(letter, sources[source]) for letter in letters],
        )


def _provenance(letter: DeadRecord, source: Source) -> Headers:
    query: Headers = [("dsms-query", letter.query.encode())] if letter.query else []
    return [
        (ERROR_HEADER, letter.reason.encode()),
        ("dsms-source", source.as_registered.name.encode()),
        (SOURCE_ID_HEADER, source.id.encode()),
        ("dsms-topic", source.topic.encode()),
        ("dsms-partition", str(letter.partition).encode()),
        ("dsms-offset", str(letter.offset).encode()),
        *query,
    ]


def progress_entries(epoch: Epoch, published: Published) -> dict[bytes, bytes]:
    """The progress records of the transaction, by key: the frontier of each result partition, and the progress of each
    owner of dead letters."""
    entries: dict[bytes, bytes] = {}
    for result in epoch.results.values():
        for id, topic, partition in result.output.progress_places:
            if result.frontier > published.upto(id):
                progress = progress_of(id, partition, result.frontier, epoch.manifest.epoch, published)
                entries[result_key(topic, partition)] = msgspec.json.encode(progress)
    for (owner, partition), upto in epoch.dead_upto.items():
        if published.dead.get((owner, partition)) != upto:
            entries[dead_key(owner, partition)] = msgspec.json.encode((upto.offset, upto.count))
    return entries


def result_heartbeats(epoch: Epoch, published: Published) -> Iterator[Records]:
    """The heartbeats for the readers of links and of tables that queries fill: no later record is below the
    frontier."""
    for query, result in epoch.results.items():
        output = result.output
        awaited = output.link is not None or (output.sink is not None and output.sink.fills is not None)
        if awaited and result.frontier > max(published.upto(query), BEGINNING):
            topics, parts = zip(*output.places, strict=True)
            writer = _writer_name(output)
            by: Headers = [] if writer is None else [(BY_HEADER, writer)]
            beat: Headers = [(HEARTBEAT_HEADER, str(result.frontier).encode()), *by]
            yield Records(topics[0], [None] * len(parts), [None] * len(parts), [beat] * len(parts), parts)
