"""A long-running task answers the orders of its driver until the driver closes the connection, or memory runs out."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pytest

from dsms.runtime.stages.wire import ArrowOutbox, Unread, envelopes
from dsms.spark.errors import WorkerDied, reason_of
from dsms.spark.long_task import TaskFailed, ask, serve
from operators.core.errors import ExternalError, Fenced


@dataclass(frozen=True)
class Say:
    """An order whose messages are the numbers."""

    numbers: tuple[int, ...]

    def run(self) -> Iterator[pa.RecordBatch]:
        for number in self.numbers:
            outbox = ArrowOutbox(revision=1)
            outbox.send("o1", Unread(number))
            yield outbox.batch()


class Panic(BaseException):
    """An error that is no Exception, as a panic of Polars."""


@dataclass(frozen=True)
class Fail:
    """An order that fails after its first message."""

    error: BaseException

    def run(self) -> Iterator[pa.RecordBatch]:
        yield from Say((1,)).run()
        raise self.error


class Task:
    """A task in a thread, and the driver's side of its connection."""

    def __init__(self, directory: Path) -> None:
        self.ended: BaseException | None = None
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(directory / "socket"))
            server.listen(1)
            self._thread = threading.Thread(target=self._serve, args=(str(directory / "socket"),))
            self._thread.start()
            self._connection = server.accept()[0]
        self._stream = cast(BinaryIO, self._connection.makefile("rwb"))

    def ask(self, order: Any) -> list[int]:
        """The numbers that an order says."""
        batches = ask(self._stream, pickle.dumps(order))
        return [cast(Unread, each.message).records for batch in batches for each in envelopes(batch)]

    def close(self) -> None:
        """Closes the connection, and waits for the task."""
        with suppress(BrokenPipeError):
            self._stream.close()
        self._connection.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self, address: str) -> None:
        try:
            assert list(serve(address, iter(()))) == []
        except BaseException as error:  # noqa: BLE001 a panic is none
            self.ended = error


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    task = Task(tmp_path)
    yield task
    task.close()


def test_orders_are_answered_until_the_connection_is_closed(task: Task) -> None:
    assert [task.ask(Say(numbers)) for numbers in ((), (7,), tuple(range(3_000)))] == [[], [7], list(range(3_000))]
    task.close()
    assert task.ended is None


@pytest.mark.parametrize("error", [ExternalError("redis is full"), Fenced("fenced")])
def test_a_task_goes_on_after_an_error(task: Task, error: Exception) -> None:
    with pytest.raises(TaskFailed) as raised:
        task.ask(Fail(error))
    reason = reason_of(raised.value)
    assert isinstance(reason, Fenced) == isinstance(error, Fenced)
    assert ("redis is full" in str(reason)) == ("redis is full" in str(error))
    assert task.ask(Say((1, 2))) == [1, 2]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), pa.lib.ArrowMemoryError("malloc failed"), Panic("overflow"), ValueError("a bug")],
)
def test_a_task_ends_after_any_other_error(task: Task, error: BaseException) -> None:
    with pytest.raises(TaskFailed) as raised:
        task.ask(Fail(error))
    assert isinstance(reason_of(raised.value), WorkerDied) == isinstance(error, MemoryError)
    with pytest.raises((EOFError, OSError)):
        task.ask(Say((1,)))
    task.close()
    assert task.ended is not None
