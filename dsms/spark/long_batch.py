"""One batch of Spark that goes on until the stream is stopped, and in which the fragment's own batches follow each
other without further Spark jobs."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dsms.runtime.batching.planner import Calls
from dsms.runtime.stages.envelope import ENVELOPE_ARROW
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import DRIVER, Envelope, envelopes
from dsms.spark.long_task import SourceOrder, TargetOrder, packed
from dsms.spark.task_slots import TaskSlots

#: The pause between two looks for something new: shortly after a batch, and later.
SHORT_PAUSE_S, _PAUSE_S, _SHORTLY_S = 0.005, 0.04, 2.0
Offsets = dict[str, Any]


class LongBatch:
    """Plans and runs batches, the first where Spark's batch begins. Its `calls` replace those of the planner for
    Spark, which plans only this batch."""

    def __init__(self, calls: Calls, slots: TaskSlots, on_batch: Callable[[TaskBatch], None]) -> None:
        self._planner, self._slots, self._on_batch = calls, slots, on_batch
        self._stopped = threading.Event()
        #: Where the next batch begins and ends.
        self._start: Offsets = {}
        self._end: Offsets = {}

    @property
    def calls(self) -> Calls:
        """The planner's functions for Spark, which asks only for the end of the first batch."""
        return {**self._planner, "latest": self._latest}

    def run(self) -> None:
        """Runs batches until `stop` is called."""
        while not self._stopped.is_set():
            tasks = self._planner["tasks"](self._start, self._end)
            self._on_batch(TaskBatch(self._slots, [SourceOrder(task) for task in tasks]))
            self._wait_for_next()

    def stop(self) -> None:
        """Ends `run` after a running batch has finished."""
        self._stopped.set()

    def _latest(self, start: Offsets) -> Offsets:
        self._start, self._end = start, self._planner["latest"](start)
        return self._end

    def _wait_for_next(self) -> None:
        """Waits until there is something to read or to do."""
        pause, until = SHORT_PAUSE_S, time.monotonic() + _SHORTLY_S
        while self._latest(self._end) == self._start and not self._stopped.wait(pause):
            pause = SHORT_PAUSE_S if time.monotonic() < until else _PAUSE_S


class TaskBatch:
    """A batch that long-running tasks compute: its source stage, then each target stage with an exchange before it."""

    def __init__(
        self,
        slots: TaskSlots,
        orders: Sequence[SourceOrder],
        sent: pa.Table | None = None,
        read: Sequence[Envelope] = (),
    ) -> None:
        self._slots, self._orders, self._sent, self._read = slots, orders, sent, read

    def read(self) -> tuple[list[Envelope], TaskBatch]:
        """Runs the source stage by itself. Returns its messages to the driver, and the batch whose `run` is next."""
        to_driver, others = _divided(self._source_stage())
        return (read := list(envelopes(to_driver))), TaskBatch(self._slots, (), others, read)

    def run(self, stages: Sequence[TargetTask], targets: int) -> Iterator[Envelope]:
        """Runs all `stages`, and yields the messages to the driver. A stage passes on the messages that are not for
        it."""
        sent = self._source_stage() if self._sent is None else self._sent
        yield from self._read
        for stage in stages:
            to_driver, others = _divided(sent)
            yield from envelopes(to_driver)
            sent = self._exchanged(stage, others, targets)
        yield from envelopes(sent)

    def _source_stage(self) -> pa.Table:
        return _table(self._slots.run(self._orders))

    def _exchanged(self, stage: TargetTask, sent: pa.Table, targets: int) -> pa.Table:
        """What the targets send, each of which gets the messages for it. The same task always computes a target."""
        code, of = pickle.dumps(stage), sent.column("target").to_numpy()
        wanted = (TargetOrder(code, packed(_where(sent, of == target).to_batches())) for target in range(targets))
        return _table(self._slots.run([order if at in of else None for at, order in enumerate(wanted)]))


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, ENVELOPE_ARROW)


def _divided(sent: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The messages to the driver, and the others."""
    to_driver = sent.column("stage").to_numpy() == DRIVER
    return _where(sent, to_driver), _where(sent, ~to_driver)


def _where(sent: pa.Table, wanted: NDArray[np.bool_]) -> pa.Table:
    return sent.filter(pa.array(wanted))
