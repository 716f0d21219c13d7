"""What runs the batches of fragments: Spark, or a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from dsms.runtime.batching.planner import Calls
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import Envelope


class Batch(Protocol):
    """The messages of the source stage of a batch. They are computed by `run`, or earlier by `read`."""

    def read(self) -> tuple[list[Envelope], Batch]:
        """Runs the source stage by itself. Returns its messages to the driver, and the batch whose `run` is next."""
        ...

    def run(self, stages: Sequence[TargetTask], targets: int) -> Iterator[Envelope]:
        """Runs all `stages`, with an exchange before each, and yields the messages to the driver. A stage passes on the
        messages that are not for it."""
        ...


class Stream(Protocol):
    """Plans batches and runs them one after the other, until it is stopped or `on_batch` raises."""

    def start(self) -> None:
        """Starts the first batch. Raises DsmsError if the engine cannot start it."""
        ...

    def check(self) -> None:
        """Raises the error that ended the stream, if it has ended."""
        ...

    def stop(self) -> None:
        """Stops after a running `on_batch` has finished."""
        ...


class Engine(Protocol):
    """Runs the streams of an executor."""

    def stream(self, name: str, directory: Path, calls: Calls, on_batch: Callable[[Batch], None]) -> Stream:
        """A stream that plans batches by the planner's functions `calls` and passes each to `on_batch`. Files that it
        needs only while it runs are in `directory`."""
        ...

    def renewed(self) -> Engine:
        """A new engine in place of one in which fragments keep failing. No stream may be running."""
        ...

    def warm_up(self, tasks: int) -> None:
        """Prepares for fragments that start later."""
        ...

    def workers_survive(self, tasks: int) -> bool:
        """Whether the workers survive a trivial job."""
        ...
