"""Messages between the stages of a fragment and its driver, and their encoding for Spark and Arrow.

A row of an exchange is a message in an envelope, which names the receiving target and stage, the revision and the lane.
Each kind of message is a struct, encoded by msgpack with the struct's name as its tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats.arrow_buffers import arrow_buffer
from dsms.measurements.work import Works
from dsms.runtime.lanes.manifest import Position
from dsms.runtime.stages.driver_budget import DriverBudget
from dsms.runtime.stages.envelope import ENVELOPE_ARROW
from dsms.runtime.stages.frames import Frame, pack
from dsms.runtime.stages.stored_state import Names
from operators.core.delta import Delta
from operators.core.errors import ExternalError
from operators.core.ordering import Ordering
from operators.streams.shed import ShedStatistics

#: The stage number of envelopes to the driver; later stages pass them on.
DRIVER = 0
#: The lane of envelopes that are about a source and not about a lane.
NO_LANE = ""
_CHECK_BYTES = 4


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all messages. The docstring of each kind says who sends it to whom."""


class Elements(Message, frozen=True, array_like=True, tag=True):
    """Source or target stage → a later stage: elements of an exchange of the dataflow. In messages of the source stage,
    `leaf` is their source and `partition` its partition; otherwise both are -1."""

    exchange: int
    frame: Frame
    leaf: int = -1
    partition: int = -1


class PartitionMoved(Message, frozen=True, array_like=True, tag=True):
    """Source stage → stage 1: the frontier of a source partition after a slice."""

    leaf: int
    partition: int
    frontier: int


class SourcesMoved(Message, frozen=True, array_like=True, tag=True):
    """Target stage → the next stage: the frontiers of the lane's sources, by number."""

    frontiers: dict[int, int]


class Wake(Message, frozen=True, array_like=True, tag=True):
    """Source stage → stage 1: the lane has to process its queues, even if nothing was read."""


class SlicePosition(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: the position in a source partition after a slice (the next offset and the partition's
    clock), and the number of records read."""

    leaf: int
    partition: int
    offset: int
    frontier: int
    high: int
    records: int
    orders: tuple[Ordering, ...] = ()

    @property
    def position(self) -> Position:
        """The position, as it is stored in manifests."""
        return Position(self.offset, self.frontier, self.high, self.orders)


class RefusedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record that became a dead letter, refused by `query` or, if that is None, by the source."""

    offset: int
    reason: str
    value: bytes
    query: str | None


class DeadLetters(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: the refused records of a slice [start, end) of a partition. `owner` is a source, or a
    query with a source; the dead letters of an owner are written once, up to an offset of each partition."""

    owner: str
    source: str
    partition: int
    start: int
    end: int
    refused: list[RefusedRecord]


class SourceFailed(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: a source could not be read. The queries over it fail."""

    leaf: int
    reason: str


class SourceWaits(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: a partition of a source was read up to `offset`; the record there has to wait, for the
    given reason."""

    source: str
    name: str
    partition: int
    offset: int
    reason: str


class VertexFailed(Message, frozen=True, array_like=True, tag=True):
    """Any stage → driver: an operator raised an error. The queries above it fail."""

    vertex: int
    reason: str


class ResultFailed(Message, frozen=True, array_like=True, tag=True):
    """Target stage → driver: a result could not be encoded. `output` is its index among the lane's outputs."""

    output: int
    reason: str


class VerticesWorked(Message, frozen=True, array_like=True, tag=True):
    """Any stage → driver: the work of vertices, by their indices in the dataflow."""

    works: Works


class Unread(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: the number of records that the lane still has to read after this batch."""

    records: int


class ShedInput(Message, frozen=True, array_like=True, tag=True):
    """Source stage → driver: the input of a query's Shed from a source partition."""

    query: str
    partition: int
    statistics: ShedStatistics


class RowsInFault(Message, frozen=True, array_like=True, tag=True):
    """Target stage → driver: the rows that a vertex could not evaluate, with `__from`, `__order`, `fault` and `row`."""

    vertex: int
    frame: Frame


class StateStored(Message, frozen=True, array_like=True, tag=True):
    """Target stage → driver: the names of the runs that hold the state of the stage's vertices on its target."""

    names: Names


class StageServed(Message, frozen=True, array_like=True, tag=True):
    """Target stage → driver: the rows and bytes that arrived at a stage on a target, the bytes that it processed, and
    the nanoseconds that this took."""

    stage: int
    rows: int
    bytes: int
    taken_bytes: int
    busy_ns: int = 0


class ResultChanges(Message, frozen=True, array_like=True, tag=True):
    """Target stage → driver: the encoded changes of an encoding group of the lane, ready to be published."""

    group: int
    frame: Frame


AnyMessage = (
    Elements
    | PartitionMoved
    | SourcesMoved
    | Wake
    | SlicePosition
    | DeadLetters
    | SourceFailed
    | SourceWaits
    | VertexFailed
    | ResultFailed
    | VerticesWorked
    | Unread
    | ShedInput
    | RowsInFault
    | StateStored
    | StageServed
    | ResultChanges
)


class Envelope(NamedTuple):
    """A message with its address."""

    target: int
    stage: int
    revision: int
    lane: str
    message: Message


class Outbox(Protocol):
    """Takes the messages that a stage sends."""

    def send(self, lane: str, message: Message, *, target: int = 0, stage: int = DRIVER) -> None:
        """Sends a message to the driver, or to a stage on a target."""
        ...

    def frame(self, pieces: Iterable[pl.DataFrame]) -> Frame:
        """The concatenation of pieces of one schema, at least one, as the frame of a message. Each piece may be freed
        before the next one is created."""
        ...


def send_parts(outbox: Outbox, lane: str, message: Callable[[Frame], Elements], parts: list[Delta], stage: int) -> None:
    """Sends each target its part of a delta, unless that is empty."""
    for target, part in enumerate(parts):
        if part.frame.height:
            outbox.send(lane, message(Frame(part.frame)), target=target, stage=stage)


class LocalOutbox:
    """Keeps messages unencoded, for use within the process."""

    def __init__(self, revision: int) -> None:
        self._revision = revision
        self.sent: list[Envelope] = []

    def send(self, lane: str, message: Message, *, target: int = 0, stage: int = DRIVER) -> None:
        """Appends the message to `sent`."""
        self.sent.append(Envelope(target, stage, self._revision, lane, message))

    def frame(self, pieces: Iterable[pl.DataFrame]) -> Frame:
        """The concatenation of the pieces."""
        return Frame(pl.concat(pieces))


class ArrowOutbox:
    """Encodes messages to other processes immediately, so that their frames can be freed. Large frames go into files of
    `directory`, if there is one. Rows sent to the driver are taken from the task's `budget` of the driver's memory."""

    def __init__(self, revision: int, directory: Path | None = None, budget: DriverBudget | None = None) -> None:
        self._revision, self._directory = revision, directory
        self._budget = budget or DriverBudget()
        self._targets: list[int] = []
        self._stages: list[int] = []
        self._lanes: list[str] = []
        self._bytes, self._ends = pa.BufferOutputStream(), [0]
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._hook)

    def send(self, lane: str, message: Message, *, target: int = 0, stage: int = DRIVER) -> None:
        """Encodes a message."""
        if isinstance(message, RowsInFault):
            self._budget.take(message.frame.rows.estimated_size())
        encoded = self._encoder.encode(message)
        self._bytes.write(encoded)
        self._bytes.write(_check((target, stage, self._revision, lane), encoded))
        self._ends.append(self._bytes.tell())
        self._targets.append(target)
        self._stages.append(stage)
        self._lanes.append(lane)

    def frame(self, pieces: Iterable[pl.DataFrame]) -> Frame:
        """The packed concatenation of the pieces, in a file if they are large."""
        return Frame(pack(self._budget.counted(pieces), self._directory))

    def batch(self) -> pa.RecordBatch:
        """All messages as an Arrow batch with the schema `ENVELOPE_ARROW`; afterwards no message can be sent."""
        count = len(self._targets)
        ends = arrow_buffer(np.array(self._ends, np.int32))
        arrays: list[pa.Array[Any]] = [
            pa.array(self._targets, pa.int32()),
            pa.array(self._stages, pa.int32()),
            pa.array([self._revision] * count, pa.int64()),
            pa.array(self._lanes, pa.string()),
            pa.Array.from_buffers(pa.binary(), count, [None, ends, self._bytes.getvalue()]),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE_ARROW)

    def _hook(self, value: object) -> bytes:
        assert isinstance(value, Frame), value
        return value.pack(self._directory)


def _frame(kind: type, value: object) -> Frame:
    assert kind is Frame and isinstance(value, bytes)
    return Frame(value)


def _check(address: tuple[int, int, int, str], message: bytes) -> bytes:
    """The checksum that is appended to a message, because Spark passes messages through files without checksums."""
    return crc32(message, _address_check(address)).to_bytes(_CHECK_BYTES, "little")


@lru_cache(maxsize=4096)
def _address_check(address: tuple[int, int, int, str]) -> int:
    return crc32(repr(address).encode())


_DECODER = msgspec.msgpack.Decoder(AnyMessage, dec_hook=_frame)


def envelopes(batch: pa.RecordBatch | pa.Table) -> Iterator[Envelope]:
    """The envelopes of an Arrow batch. Raises ExternalError if a message is damaged.

    >>> outbox = ArrowOutbox(revision=3)
    >>> outbox.send("o1", Unread(7))
    >>> list(envelopes(outbox.batch()))
    [Envelope(target=0, stage=0, revision=3, lane='o1', message=Unread(records=7))]
    """
    columns: Mapping[str, list[Any]] = batch.to_pydict()
    for target, stage, revision, lane, message in zip(*columns.values(), strict=True):
        content, check = message[:-_CHECK_BYTES], message[-_CHECK_BYTES:]
        if check != _check((target, stage, revision, lane), content):
            raise ExternalError("a message between stages is damaged", hint="the batch is computed again")
        yield Envelope(target, stage, revision, lane, _DECODER.decode(content))
