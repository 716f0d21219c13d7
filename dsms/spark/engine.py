"""Spark as the engine of an executor's fragments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from dsms.runtime.batching.planner import Calls
from dsms.spark import warm_up
from dsms.spark.long_batch import TaskBatch
from dsms.spark.scratch import temporary_directory
from dsms.spark.stream import Batch, FragmentStream
from dsms.spark.task_slots import TaskSlots


class SparkEngine:
    """Runs each fragment as a Structured Streaming query of one session. `renew` returns another session in place of
    one that fails; `scratch` is the scratch directory of the executor. With `long_tasks`, long-running tasks compute
    the batches; they have to be on the machine of the driver."""

    def __init__(
        self,
        session: SparkSession,
        renew: Callable[[SparkSession], SparkSession],
        scratch: Path,
        *,
        long_tasks: bool,
    ) -> None:
        self._session, self._renew, self._scratch = session, renew, scratch
        self._slots, self._long_tasks = TaskSlots(session, temporary_directory(scratch)), long_tasks

    def stream(
        self, name: str, directory: Path, calls: Calls, on_batch: Callable[[Batch | TaskBatch], None]
    ) -> FragmentStream:
        """The query of a fragment."""
        directories = directory / "checkpoint", temporary_directory(self._scratch)
        slots = self._slots if self._long_tasks else None
        return FragmentStream(self._session, name, directories, calls, on_batch, slots)

    def renewed(self) -> SparkEngine:
        """An engine with a new session."""
        with self._slots.for_job():
            session = self._renew(self._session)
        return SparkEngine(session, self._renew, self._scratch, long_tasks=self._long_tasks)

    def warm_up(self, tasks: int) -> None:
        """Runs a trivial job, so that the first batch of a fragment starts quickly."""
        with self._slots.for_job():
            warm_up.warm_up(self._session, tasks)

    def workers_survive(self, tasks: int) -> bool:
        """Whether the workers survive a trivial job."""
        with self._slots.for_job():
            return warm_up.workers_survive(self._session, tasks)
