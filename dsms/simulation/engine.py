"""A stand-in for Spark: it runs the real source and target tasks of a fragment as tasks of the simulation.

Like Spark, it asks the planner for the end of the next batch, reads slices and computes targets in parallel, exchanges
messages as Arrow batches whose order is not determined, and passes on the errors of workers as text.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.client.config import KafkaSettings
from connectors.simulation.scheduler import Scheduler
from connectors.simulation.threads import Event, Thread, ThreadPool
from dsms.executor.engine import Batch
from dsms.runtime.batching.offsets import Offsets
from dsms.runtime.batching.planner import Calls
from dsms.runtime.stages.source_task import run_source_task
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import DRIVER, Envelope, envelopes
from dsms.spark.errors import reason_of
from operators.core.errors import DsmsError

#: Seconds between two questions to the planner while there is nothing to do. Spark asks more often.
POLL_S = 0.2
#: The least and greatest time that a task of a worker takes.
_TASK_S = (0.0005, 0.01)
#: A task, given the settings with which its worker reaches Kafka.
Work = Callable[[KafkaSettings], list[pa.RecordBatch]]


class SimulatedEngine:
    """Implements `dsms.executor.engine.Engine`."""

    def __init__(self, scheduler: Scheduler, new_worker: Callable[[], KafkaSettings]) -> None:
        """`new_worker` returns the settings with which a new worker reaches Kafka: each has connections of its own."""
        self._workers = Workers(scheduler, new_worker)

    def stream(self, name: str, directory: Path, calls: Calls, on_batch: Callable[[Batch], None]) -> SimulatedStream:
        """The stream of a fragment."""
        return SimulatedStream(self._workers, name, calls, on_batch)

    def renewed(self) -> SimulatedEngine:
        """An engine with new workers."""
        return SimulatedEngine(self._workers.scheduler, self._workers.new)

    def warm_up(self, tasks: int) -> None:
        """Does nothing."""

    def workers_survive(self, tasks: int) -> bool:
        """Whether the workers survive; they do."""
        return True


class Workers:
    """The workers of a process. A worker that has nothing to do is used again, with its connections."""

    def __init__(self, scheduler: Scheduler, new: Callable[[], KafkaSettings]) -> None:
        self.scheduler, self.new = scheduler, new
        self._idle: list[KafkaSettings] = []

    def in_parallel(self, calls: Sequence[Work]) -> list[pa.RecordBatch]:
        """The batches that all calls return, in an order of chance. Raises the first error as Spark's text says it."""
        if not calls:
            return []
        with ThreadPool(self.scheduler, len(calls), "worker") as pool:
            results = [pool.submit(self._run, call) for call in calls]
        try:
            batches = [batch for result in results for batch in result.result()]
        except (DsmsError, OSError) as error:
            raise _as_spark_says(error) from error
        self.scheduler.random.shuffle(batches)
        return batches

    def _run(self, call: Work) -> list[pa.RecordBatch]:
        worker = self._idle.pop() if self._idle else self.new()
        self.scheduler.sleep(self.scheduler.random.uniform(*_TASK_S))
        batches = call(worker)
        self._idle.append(worker)
        return batches


class SimulatedStream:
    """Plans and runs one batch after the other."""

    def __init__(self, workers: Workers, name: str, calls: Calls, on_batch: Callable[[Batch], None]) -> None:
        self._workers, self._calls, self._on_batch = workers, calls, on_batch
        self._stopping = Event(workers.scheduler)
        self._failed: DsmsError | None = None
        self._started = False
        self._thread = Thread(workers.scheduler, self._run, f"stream {name}")

    def start(self) -> None:
        """Starts the first batch."""
        self._started = True
        self._thread.start()

    def check(self) -> None:
        """Raises the error that ended the stream."""
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """Stops after a running batch."""
        self._stopping.set()
        if self._started:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._run_batches()
        except DsmsError as error:
            self._failed = error
        except OSError as error:
            self._failed = _as_spark_says(error)

    def _run_batches(self) -> None:
        start: Offsets = self._calls["initial"]()
        while not self._stopping.is_set():
            end: Offsets = self._calls["latest"](start)
            if end == start:
                self._stopping.wait(POLL_S)
                continue
            tasks = self._calls["tasks"](start, end)
            self._on_batch(SimulatedBatch(self._workers, tasks))
            start = end


class SimulatedBatch:
    """A batch: its source stage is computed by `run`, or earlier by `read`."""

    def __init__(self, workers: Workers, tasks: Sequence[bytes], sent: Sequence[pa.RecordBatch] = ()) -> None:
        self._workers, self._tasks, self._sent = workers, tasks, sent
        self._read: list[Envelope] = []

    def read(self) -> tuple[list[Envelope], SimulatedBatch]:
        """Runs the source stage. Returns its messages to the driver, and the batch with the others."""
        sent = self._source_stage()
        rest = SimulatedBatch(self._workers, (), [_part(batch, DRIVER, among=False) for batch in sent])
        rest._read = [each for batch in sent for each in envelopes(_part(batch, DRIVER, among=True))]
        return rest._read, rest

    def run(self, stages: Sequence[TargetTask], targets: int) -> Iterator[Envelope]:
        """Runs all stages, and yields the messages to the driver."""
        routed = [*self._sent, *self._source_stage()]
        for stage in stages:
            routed = self._exchanged(stage, routed, targets)
        yield from self._read
        for batch in routed:
            yield from envelopes(batch)

    def _source_stage(self) -> list[pa.RecordBatch]:
        return self._workers.in_parallel([partial(_source_task, task) for task in self._tasks])

    def _exchanged(self, stage: TargetTask, routed: Sequence[pa.RecordBatch], targets: int) -> list[pa.RecordBatch]:
        """The messages that the targets send after they have received some."""
        received = [[_of_target(batch, target) for batch in routed] for target in range(targets)]
        return self._workers.in_parallel([partial(_target_task, stage, mine) for mine in received])


def _as_spark_says(error: Exception) -> DsmsError:
    """The error that the driver makes of the text of another process."""
    return reason_of(RuntimeError(f"{type(error).__module__}.{type(error).__name__}: {error}"))


def _source_task(pickled: bytes, worker: KafkaSettings) -> list[pa.RecordBatch]:
    return list(run_source_task(replace(pickle.loads(pickled), kafka=worker)))


def _target_task(stage: TargetTask, received: Sequence[pa.RecordBatch], worker: KafkaSettings) -> list[pa.RecordBatch]:
    return list(stage(received))


def _of_target(batch: pa.RecordBatch, target: int) -> pa.RecordBatch:
    return batch.filter(pc.equal(batch.column("target"), pa.scalar(target, pa.int32())))


def _part(batch: pa.RecordBatch, stage: int, *, among: bool) -> pa.RecordBatch:
    """The messages to a stage, or all others."""
    chosen = pc.equal(batch.column("stage"), pa.scalar(stage, pa.int32()))
    return batch.filter(chosen if among else pc.invert(chosen))
