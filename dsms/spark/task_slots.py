"""The task slots of a Spark session: either Spark's jobs use them, or long-running tasks for batches.

A Spark job takes some 0.1 s, and as much processor time in the JVM, however few records a batch has. Tasks of one job
that keeps running (`dsms.spark.long_task`) need none of this: the driver sends them the parts of each batch. This is
the idea of Spark's real-time mode, which does not support `foreachBatch`.
"""

from __future__ import annotations

import pickle
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dsms.spark.compat.shortcut import Shortcut
from dsms.spark.errors import SparkFailed, WorkerDied, reason_of
from dsms.spark.long_task import Order, TaskFailed, ask, serve
from operators.core.errors import DsmsError

_START_S = 60.0
#: The most callers whose orders alternate; others wait for one of them.
_MOST_CALLERS = 8
_LOOK_S = 0.2
SHORTCUT = Shortcut("long_tasks", "0.1 s of a batch, and as much of the JVM's processor time")
log = structlog.get_logger()


class TaskSlots:
    """Shares the slots of a session between Spark's jobs and long-running tasks. Several threads may use it.

    A job, of which there are few, waits until the orders that are being carried out have ended, and ends the tasks.
    Other orders wait until there is no job, and start the tasks again.
    """

    def __init__(self, session: SparkSession, sockets: Path) -> None:
        """`sockets` is the directory of the tasks' sockets."""
        self._session, self._sockets = session, sockets
        self._changed = threading.Condition()
        self._jobs, self._running = 0, 0
        self._tasks: LongTasks | None = None

    @contextmanager
    def for_job(self) -> Iterator[None]:
        """Leaves the slots to Spark while the block runs."""
        with self._changed:
            self._jobs += 1
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._running)
                self._end_tasks()
            yield
        finally:
            with self._changed:
                self._jobs -= 1
                self._changed.notify_all()

    def run(self, orders: Sequence[Order | None]) -> list[pa.RecordBatch]:
        """Carries out orders, the first by the first task and so on; None is an order for nothing. Returns the messages
        that they send. Raises the DsmsError that a task has raised, or one with the reason why it failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs)
            tasks = self._running_tasks()
            self._running += 1
        try:
            return tasks.run(orders)
        except SparkFailed:
            with self._changed:
                if self._tasks is tasks:  # no other caller has ended them already
                    self._end_tasks()
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _running_tasks(self) -> LongTasks:
        """The tasks; new ones if there are none, or if one has ended while there was nothing to do."""
        if self._tasks is not None and self._tasks.ended and not self._running:
            self._end_tasks()
        if self._tasks is None:
            try:
                self._tasks = LongTasks(self._session, self._sockets)
            except (PySparkException, Py4JError) as error:
                raise reason_of(error) from error
        return self._tasks

    def _end_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
            self._tasks = None


class LongTasks:
    """The tasks of a Spark job that runs until it is closed."""

    def __init__(self, session: SparkSession, sockets: Path) -> None:
        """Starts the tasks, and waits until all of them run. Raises DsmsError if Spark cannot run them."""
        count = session.sparkContext.defaultParallelism
        self._directory = Path(tempfile.mkdtemp(prefix="tasks-", dir=sockets))
        self._failed: DsmsError | None = None
        self._job_ended = threading.Event()
        self._asking = ThreadPoolExecutor(count * _MOST_CALLERS, "long-tasks")
        self._connections: list[_Connection] = []
        with socket.socket(socket.AF_UNIX) as server:
            address = str(self._directory / "socket")
            server.bind(address)
            server.listen(count)
            server.settimeout(_LOOK_S)
            job = partial(self._run_job, session, address, count)
            self._job = threading.Thread(target=job, name="long-tasks-job", daemon=True)
            self._job.start()
            try:
                self._accept(server, count)
            except BaseException:
                self.close()
                raise

    @property
    def ended(self) -> bool:
        """Whether the job has ended, because a task has."""
        return self._job_ended.is_set()

    def run(self, orders: Sequence[Order | None]) -> list[pa.RecordBatch]:
        """Carries out orders, the first by the first task and so on, and returns the messages that they send. If one
        fails, the others have ended, too."""
        count = len(self._connections)
        asked = [self._asking.submit(self._ask, each, orders[at::count]) for at, each in enumerate(self._connections)]
        wait(asked)
        return [batch for answer in asked for batch in answer.result()]

    def close(self) -> None:
        """Ends the tasks, and waits until their slots are free."""
        for connection in self._connections:
            connection.close()
        self._job_ended.wait(_START_S)
        self._asking.shutdown(wait=False)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _ask(self, connection: _Connection, orders: Sequence[Order | None]) -> list[pa.RecordBatch]:
        try:
            return [batch for order in orders if order is not None for batch in connection.ask(pickle.dumps(order))]
        except TaskFailed as error:
            raise reason_of(error) from error
        except (OSError, EOFError) as error:
            raise WorkerDied(
                "a worker died: it crashed, or needed more memory than it may use", retryable=True
            ) from error

    def _accept(self, server: socket.socket, count: int) -> None:
        looks = int(_START_S / _LOOK_S)
        while len(self._connections) < count:
            try:
                self._connections.append(_Connection(server.accept()[0]))
            except TimeoutError:
                looks -= 1
                if self._failed is not None or not looks:
                    raise self._failed or SparkFailed("long-running tasks do not start", retryable=True) from None

    def _run_job(self, session: SparkSession, address: str, count: int) -> None:
        rows = session.range(count, numPartitions=count)
        try:
            rows.mapInArrow(partial(serve, address), rows.schema).toArrow()
        except (PySparkException, Py4JError) as error:
            self._failed = reason_of(error)
            log.debug("the job of long-running tasks has ended", reason=str(self._failed))
        finally:
            self._job_ended.set()


class _Connection:
    """The connection to a task. Several threads may use it; one order at a time is carried out."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self._connection, self._lock = connection, threading.Lock()
        self._stream = cast(BinaryIO, connection.makefile("rwb"))

    def ask(self, order: bytes) -> list[pa.RecordBatch]:
        """The answer to an order."""
        with self._lock:
            return ask(self._stream, order)

    def close(self) -> None:
        """Closes the connection; the task ends."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
            self._stream.close()
        except OSError:  # the task has ended already
            log.debug("a long-running task had ended before its connection was closed")
        self._connection.close()
