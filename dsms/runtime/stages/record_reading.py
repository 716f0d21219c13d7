"""Converts Kafka records to arrivals: a source's data from value, key, headers and record timestamp."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import compress

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats import Decoder, ListsFields
from connectors.formats.binary_column import BinaryColumn
from connectors.formats.record_formats import FORMATS
from connectors.kafka.client.names import BY_HEADER, ERROR_HEADER, HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.records.log_pieces import LogPiece
from dsms.model.objects import Format, Source
from dsms.runtime.stages.intake import LATE, NO_NUMBER, OUT_OF_RANGE, Arrivals, Intake, no_instant, reading_schema
from operators.core.clock import Heartbeat
from operators.core.delta import is_instant

WriterSchema = Callable[[int], dict[str, object]]


def intake_of(source: Source, writer: WriterSchema) -> Intake:
    """The intake of a source in its declared format."""
    upserts = _decoder(source.format, reading_schema(source), writer, keys=False)
    removals = _decoder(source.format, reading_schema(source, deletions=True), writer, keys=True)
    return Intake(
        source, upserts.decode, removals.decode, removals.field_names if isinstance(removals, ListsFields) else None
    )


@lru_cache(maxsize=64)
def _decoder(kind: Format, schema: pa.Schema, writer: WriterSchema, *, keys: bool) -> Decoder:
    """One decoder per schema and worker process: it caches writer schemas."""
    form = FORMATS[kind]
    return (form.keys if keys and form.keys is not None else form.decoder)(schema, writer)


#: Reasons to refuse a record: in the log of a table, the name of another writer or none; in any log, a statement that
#: skips it.
FOREIGN = "it does not name the cluster as its writer; only the cluster may write to the log of a table"
SKIPPED = "skipped by a statement"
_NO_INSTANT = pl.Series([None], dtype=pl.Int64)


def arrivals_of(
    source: Source, partition: int, piece: LogPiece, logged: tuple[Heartbeat, ...], skipped: Collection[int] = ()
) -> Arrivals:
    """The arrivals of the records of a piece, in offset order. Heartbeats among the records are separated from the
    others. Records at the offsets `skipped` are refused."""
    values, keys = piece.values(), None
    offsets, instants, ops = piece.offsets, _instants(source, piece), _ops(source, piece)
    arrived = None if source.ahead_ms is None else piece.timestamps()
    kept = np.ones(len(piece), np.bool_) if source.late_of is None else _late(piece)
    beats: list[Heartbeat] = []
    refused: tuple[tuple[int, str, object], ...] = ()
    if source.marked_by is not None or skipped:
        reasons = _refusals(source, piece, skipped)
        refused = tuple((int(offsets[at]), reason, values[at]) for at, reason in reasons.items())
        kept[list(reasons)] = False
    if not isinstance(values, BinaryColumn) and None in values:
        keyed = FORMATS[source.format].keyed
        keys, heartbeats = piece.keys() if keyed else [None] * len(values), heartbeats_in(piece, values)
        beats = [Heartbeat(int(offsets[at]), time) for at, time in heartbeats.items() if kept[at]]
        kept[list(heartbeats)] = False
    if not kept.all():
        values, keys = list(compress(values, kept)), None if keys is None else list(compress(keys, kept))
        offsets, instants = offsets[kept], instants.filter(pl.Series(kept))
        arrived = None if arrived is None else arrived[kept]
        ops = None if ops is None else list(compress(ops, kept))
    keys = keys if keys is not None and None in values else None
    beats = sorted([*logged, *beats], key=lambda beat: beat.offset)
    wrong = _no_instants(piece, np.flatnonzero(kept)[(instants == NO_NUMBER).fill_null(False).to_numpy()])
    return Arrivals(partition, offsets, values, instants, ops, keys, tuple(beats), arrived, refused, wrong)


def _no_instants(piece: LogPiece, wrong: NDArray[np.int64]) -> dict[int, str]:
    """The reasons why the headers of records, given by index, are not instants, by offset."""
    if not len(wrong):
        return {}
    texts = piece.header(TS_HEADER)
    given = (f'"{(texts[int(at)] or b"").decode(errors="backslashreplace")}"' for at in wrong)
    reasons = (no_instant(f'the header "{TS_HEADER}"', text) for text in given)
    return dict(zip(piece.offsets[wrong].tolist(), reasons, strict=True))


def _late(piece: LogPiece) -> NDArray[np.bool_]:
    """Which records of a dead-letter topic are late records or heartbeats."""
    late = piece.header(ERROR_HEADER).bin.starts_with(LATE.encode()).fill_null(False)
    return (late | piece.header(HEARTBEAT_HEADER).is_not_null()).to_numpy().copy()


def _refusals(source: Source, piece: LogPiece, skipped: Collection[int]) -> dict[int, str]:
    """Why records are refused whatever their content, by index."""
    own = None if source.marked_by is None else _names_cluster(piece, source.marked_by)
    foreign = [] if own is None else np.flatnonzero(~own).tolist()
    skips = np.flatnonzero(np.isin(piece.offsets, list(skipped))).tolist() if skipped else []
    return dict.fromkeys(foreign, FOREIGN) | dict.fromkeys(skips, SKIPPED)


def _names_cluster(piece: LogPiece, cluster: str) -> NDArray[np.bool_]:
    """Which records name the cluster as their writer."""
    return piece.header(BY_HEADER).bin.starts_with(f"{cluster}/".encode()).fill_null(False).to_numpy().copy()


def _instants(source: Source, piece: LogPiece) -> pl.Series:
    """The instant in the header, or else the record's timestamp; null if instants are read from a column. For a header
    without a valid instant this is a value that the intake refuses."""
    if source.timestamp is not None:
        return _NO_INSTANT.new_from_index(0, len(piece))
    texts, times = piece.header(TS_HEADER), pl.Series(piece.timestamps(), dtype=pl.Int64)
    if texts.null_count() == len(texts):
        return times
    return pl.Series([_instant(text) for text in texts], dtype=pl.Int64).zip_with(texts.is_not_null(), times)


def _instant(text: bytes | None) -> int | None:
    if text is None:
        return None
    try:
        ts = int(text)
    except ValueError:  # raised for thousands of digits, too
        return OUT_OF_RANGE if text.isdigit() else NO_NUMBER
    return ts if abs(ts) < OUT_OF_RANGE else OUT_OF_RANGE


def _ops(source: Source, piece: LogPiece) -> list[str | None] | None:
    """The operations in the headers; None if no record has one."""
    if source.tagged != "header":
        return None
    ops = piece.header(OP_HEADER)
    if ops.null_count() == len(ops):
        return None
    return [None if op is None else op.decode(errors="replace") for op in ops]


def heartbeats_in(piece: LogPiece, values: Sequence[bytes | None]) -> dict[int, int]:
    """The instants of the heartbeats among the records, by index. A heartbeat is a record without a value and with a
    valid heartbeat header. If the header is invalid, the record is left to the intake, which refuses it."""
    texts = piece.header(HEARTBEAT_HEADER)
    empty = (at for at, value in enumerate(values) if value is None)
    return {at: time for at in empty if (time := _heartbeat_time(texts[at])) is not None}


def _heartbeat_time(text: bytes | None) -> int | None:
    try:
        time = int(text or b"")
    except ValueError:
        return None
    return time if is_instant(time) else None
