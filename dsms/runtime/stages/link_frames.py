"""The elements of links (internal topics between the parts of a query) as Arrow frames, each for one receiver.

Workers build the frames; the driver writes them to Kafka without decoding them.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dsms.planner.physical.parts.links import ROWS_PER_RECORD, LinkTarget
from dsms.planner.physical.parts.send import RECEIVER
from operators.core.delta import BEGINNING, FROM
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc

#: The columns of a row that represents a frame: the last of its instants (FROM is the first), and the frame.
LAST, FRAME = "last", "frame"
#: The approximate most bytes of rows in a frame, unless a single row is larger.
_BYTES = 1 << 20
_SCHEMA = {FROM: pl.Int64, LAST: pl.Int64, RECEIVER: pl.Int64, FRAME: pl.Binary}


def link_frames(elements: pl.DataFrame, target: LinkTarget) -> pl.DataFrame:
    """The frames of elements, with their receivers and instants."""
    return pl.DataFrame(list(_frames(elements, target)), schema=_SCHEMA, orient="row")


def _frames(elements: pl.DataFrame, target: LinkTarget) -> Iterator[tuple[object, ...]]:
    for receiver in range(target.sender.of):
        own = elements.filter(pl.col(RECEIVER) == receiver).drop(RECEIVER)
        for piece in own.iter_slices(_rows(own)) if own.height else ():
            yield piece[FROM].min(), piece[FROM].max(), receiver, frame_to_ipc(piece)


def _rows(elements: pl.DataFrame) -> int:
    """The number of rows for each frame."""
    fitting = _BYTES * elements.height // max(int(elements.estimated_size()), 1)
    return max(min(fitting, ROWS_PER_RECORD), 1)


def from_instant(frames: pl.DataFrame, start: int) -> pl.DataFrame:
    """The frames of the elements that begin at `start` or later. A frame that also holds earlier elements is rebuilt
    without them."""
    kept = frames.filter(pl.col(LAST) >= start)
    if start <= BEGINNING or not kept.height or kept.select((pl.col(FROM) >= start).all()).item():
        return kept
    cut = (row if row[0] >= start else (start, row[1], row[2], _cut(row[3], start)) for row in kept.rows())
    return pl.DataFrame(list(cut), schema=_SCHEMA, orient="row")


def _cut(frame: bytes, start: int) -> bytes:
    return frame_to_ipc(frame_from_ipc(frame).filter(pl.col(FROM) >= start))
