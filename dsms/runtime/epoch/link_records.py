"""The elements of links (internal topics between the parts of a query) as Kafka records.

Each record is a frame of elements for one receiver.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from connectors.kafka.records.record_columns import RecordColumns
from dsms.planner.physical.parts.links import LinkTarget
from dsms.planner.physical.parts.send import RECEIVER
from dsms.runtime.stages.link_frames import FRAME


def link_records(frames: pl.DataFrame, target: LinkTarget) -> Iterator[RecordColumns]:
    """The records for each receiver, which has a partition of its own."""
    for receiver, partition in enumerate(target.partitions):
        own = frames.filter(pl.col(RECEIVER) == receiver)
        if own.height:
            places = pl.repeat(partition, own.height, dtype=pl.Int32, eager=True)
            yield RecordColumns(target.topic, own[FRAME], partitions=places)
