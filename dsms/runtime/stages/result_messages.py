"""Results as messages of a target stage. The results of a family are encoded together, but fail one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from polars.exceptions import PanicException

from connectors.kafka.client.config import LARGEST_RECORD
from dsms.planner.physical.lane import EncodingGroup, Lane, Output
from dsms.runtime.stages.encoding import KEY, VALUE, encode_changes
from dsms.runtime.stages.lane_step import of_member
from dsms.runtime.stages.link_frames import FRAME
from dsms.runtime.stages.wire import Outbox, ResultChanges, ResultFailed
from operators.core.delta import FROM
from operators.core.errors import ExternalError

Encode = Callable[[Output, pl.DataFrame], pl.DataFrame]
#: The most bytes of key and value together. The rest of a record is room for headers, and for data that compression
#: makes larger.
MAX_BYTES = LARGEST_RECORD - 2**20


class _TooLarge(Exception):
    """A record is larger than Kafka accepts; the text says which one."""


@dataclass(frozen=True)
class ResultEncoding:
    """How results are encoded: by `encode`, `piece` changes at a time to bound memory. A record may have at most
    `most_bytes`. `poisoned` is the name of a query that fails on purpose, for tests."""

    encode: Encode = encode_changes
    poisoned: str | None = None
    piece: int = 1 << 14
    most_bytes: int = MAX_BYTES


def result_messages(
    lane: Lane, changes: Mapping[int, pl.DataFrame], encoding: ResultEncoding, outbox: Outbox
) -> Iterator[ResultChanges | ResultFailed]:
    """The encoded changes of each group whose vertex is in `changes`, and the failure of each output that cannot be
    encoded."""
    for number, group in enumerate(lane.encoding_groups):
        frame = changes.get(group.vertex)
        if frame is not None:
            yield from _Group(lane, number, group, encoding, outbox).messages(frame)


@dataclass(frozen=True)
class _Group:
    lane: Lane
    number: int
    group: EncodingGroup
    encoding: ResultEncoding
    outbox: Outbox

    def messages(self, changes: pl.DataFrame) -> Iterator[ResultChanges | ResultFailed]:
        """The changes as one message. If that fails, each member of a family is encoded by itself, so that only the
        query fails whose result cannot be encoded."""
        outputs = {number: self.lane.outputs[number] for number in self.group.numbers}
        if all(output.name != self.encoding.poisoned for output in outputs.values()):
            together = self._encoded(outputs[self.group.numbers[0]], changes)
            if not isinstance(together, str):
                yield from [together] if together is not None else []
                return
        for number, output in outputs.items():
            poisoned = output.name == self.encoding.poisoned
            message = "poisoned by configuration" if poisoned else self._encoded(output, of_member(changes, output))
            if isinstance(message, str):
                yield ResultFailed(number, message)
            elif message is not None:
                yield message

    def _encoded(self, output: Output, changes: pl.DataFrame) -> ResultChanges | str | None:
        """The message with the changes; None if there are no changes; a text with the reason if they cannot be encoded
        or written."""
        if not changes.height:
            return None
        encode, pieces = self.encoding.encode, changes.iter_slices(self.encoding.piece)
        try:
            frame = self.outbox.frame(_fitting(encode(output, piece), self.encoding.most_bytes) for piece in pieces)
        except _TooLarge as error:
            return str(error)
        except (ExternalError, OSError, MemoryError):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose result it is
            return f"{type(error).__name__}: {error}"
        return ResultChanges(self.number, frame)


def _fitting(records: pl.DataFrame, most: int) -> pl.DataFrame:
    """The records, or the frames of a link. Raises _TooLarge if one of them is too large to be written."""
    if records.estimated_size() <= most:
        return records
    parts = [pl.col(name).bin.size().fill_null(0) for name in (KEY, VALUE, FRAME) if name in records.columns]
    sizes = records.select(FROM, size=pl.sum_horizontal(parts).cast(pl.Int64))
    for instant, size in sizes.filter(pl.col("size") > most).head(1).iter_rows():
        raise _TooLarge(
            f"a result row at instant {instant} is too large: {size:,} bytes, at most {most:,} can be written"
        )
    return records
