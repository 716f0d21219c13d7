"""Spark as the engine of an executor's fragments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from dsms.runtime.batching.planner import Calls
from dsms.spark import warm_up
from dsms.spark.scratch import temporary_directory
from dsms.spark.stream import Batch, FragmentStream


@dataclass(frozen=True)
class SparkEngine:
    """Runs each fragment as a Structured Streaming query of one session. `renew` returns another session in place of
    one that fails; `scratch` is the scratch directory of the executor."""

    session: SparkSession
    renew: Callable[[SparkSession], SparkSession]
    scratch: Path

    def stream(self, name: str, directory: Path, calls: Calls, on_batch: Callable[[Batch], None]) -> FragmentStream:
        """The query of a fragment."""
        sockets = temporary_directory(self.scratch)
        return FragmentStream(self.session, name, (directory / "checkpoint", sockets), calls, on_batch)

    def renewed(self) -> SparkEngine:
        """An engine with a new session."""
        return replace(self, session=self.renew(self.session))

    def warm_up(self, tasks: int) -> None:
        """Runs a trivial job, so that the first batch of a fragment starts quickly."""
        warm_up.warm_up(self.session, tasks)

    def workers_survive(self, tasks: int) -> bool:
        """Whether the workers survive a trivial job."""
        return warm_up.workers_survive(self.session, tasks)
