"""The elements of links as Kafka records: Arrow frames, each for one receiver."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from connectors.kafka.record_columns import RecordColumns
from dsms.physical.parts.links import ROWS_PER_RECORD, LinkTarget
from dsms.physical.parts.send import RECEIVER
from operators.core.frame_ipc import frame_to_ipc

#: About how many bytes of rows a record has at most, unless a single row is larger.
_BYTES = 1 << 20


def link_records(elements: pl.DataFrame, target: LinkTarget) -> Iterator[RecordColumns]:
    """The elements of all receivers, those of one in a partition of its own."""
    for receiver in range(target.sender.of):
        own = elements.filter(pl.col(RECEIVER) == receiver).drop(RECEIVER)
        values = [frame_to_ipc(piece) for piece in own.iter_slices(_rows(own))] if own.height else []
        places = pl.repeat(target.partition(receiver), len(values), dtype=pl.Int32, eager=True)
        if values:
            yield RecordColumns(target.topic, pl.Series(values, dtype=pl.Binary), partitions=places)


def _rows(elements: pl.DataFrame) -> int:
    """How many rows a record has."""
    fitting = _BYTES * elements.height // max(int(elements.estimated_size()), 1)
    return max(min(fitting, ROWS_PER_RECORD), 1)
