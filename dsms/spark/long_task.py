"""A long-running task in a Spark worker: it computes its part of one batch after another.

The driver sends orders over a socket, and gets the messages that the stages send, as Arrow batches.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from dsms.runtime.stages.envelope import ENVELOPE_ARROW
from dsms.runtime.stages.source_task import run_source_task
from dsms.runtime.stages.target_task import TargetTask
from operators.core.errors import DsmsError

_SIZE = struct.Struct("<Q")


@dataclass(frozen=True)
class SourceOrder:
    """Reads: runs a task of the source stage, which is pickled already."""

    task: bytes

    def run(self) -> Iterator[pa.RecordBatch]:
        """The messages that the task sends."""
        return run_source_task(pickle.loads(self.task))


@dataclass(frozen=True)
class TargetOrder:
    """Computes: runs a target stage, which is pickled already, on a target with the messages that it gets."""

    stage: bytes
    arrived: bytes

    def run(self) -> Iterator[pa.RecordBatch]:
        """The messages that the target sends."""
        stage: TargetTask = pickle.loads(self.stage)
        return stage(unpacked(self.arrived))


Order = SourceOrder | TargetOrder


class TaskFailed(Exception):
    """A task raised an error; the text has its traceback."""


def serve(address: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Carries out the orders of the driver at an address, until it closes the connection, or an order fails with an
    error that is not the project's. Spark runs it as a task; it takes and gives no rows."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with cast(BinaryIO, connection.makefile("rwb")) as stream:
            while (order := receive(stream)) is not None:
                _carry_out(pickle.loads(order), stream)
    yield from ()


def _carry_out(order: Order, stream: BinaryIO) -> None:
    try:
        answer = packed(order.run())
    except DsmsError as error:
        send(stream, b"", _text_of(error))
    except BaseException as error:  # also a panic of Polars
        send(stream, b"", _text_of(error))
        raise
    else:
        send(stream, answer, b"")


def _text_of(error: BaseException) -> bytes:
    """The error, then its traceback."""
    return f"{traceback.format_exception_only(error)[-1]}{traceback.format_exc()}".encode()


def ask(stream: BinaryIO, order: bytes) -> list[pa.RecordBatch]:
    """Called in the driver: the answer to a pickled order. Raises TaskFailed if it failed, EOFError if the task has
    ended."""
    send(stream, order)
    answer, failure = receive(stream), receive(stream)
    if answer is None or failure is None:
        raise EOFError("the task has ended")
    if failure:
        raise TaskFailed(failure.decode())
    return unpacked(answer)


def packed(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Messages as bytes."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, ENVELOPE_ARROW) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def unpacked(messages: bytes) -> list[pa.RecordBatch]:
    """The messages that `packed` made bytes of."""
    return list(pa.ipc.open_stream(messages))


def send(stream: BinaryIO, *parts: bytes) -> None:
    """Writes parts, each after its size."""
    for part in parts:
        stream.write(_SIZE.pack(len(part)))
        stream.write(part)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """The next part; None if the other side has closed the connection."""
    size = stream.read(_SIZE.size)
    if len(size) < _SIZE.size:
        return None
    part = stream.read(_SIZE.unpack(size)[0])
    return part if len(part) == _SIZE.unpack(size)[0] else None
