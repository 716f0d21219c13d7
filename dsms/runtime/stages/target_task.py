"""The target stage in a Spark worker: receives and sends messages as Arrow batches, and opens the store of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.memory.cyclic_collector import collect_between_tasks
from dsms.runtime.memory.worker_limit import limit_memory
from dsms.runtime.stages.driver_budget import DriverBudget
from dsms.runtime.stages.stage_runs import BackgroundRuns, StageRuns
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.wire import ArrowOutbox, Envelope, envelopes
from dsms.state.stores import StateAddress


@dataclass(frozen=True)
class StoreSettings:
    """Where a fragment's runs are stored: up to `memory_limit` bytes in the memory of the store `state` (None: no
    limit), the others on disk. `cache` is the directory of copies that all workers of a host share."""

    state: StateAddress
    fragment: str
    cache: Path
    memory_limit: int | None = None
    #: The size from which on runs are written to disk only (`RunLocations.disk_from`).
    disk_from: int | None = field(default=None, compare=False)

    def store(self) -> StageRuns:
        """The store of this worker process."""
        return replace(_store(self), disk_from=self.disk_from)


@dataclass(frozen=True)
class TargetTask:
    """The function that `mapInArrow` runs for a target stage. If all workers are on one machine, they exchange large
    frames as files in the directory `frames`."""

    stage: TargetStage
    open_store: Callable[[], StageRuns]
    frames: Path | None = None
    #: The most bytes that a task sends to the driver.
    most_to_driver: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the messages for other stages unchanged, then an Arrow batch for each lane and target."""
        limit_memory()
        collect_between_tasks()
        arrived: list[Envelope] = []
        for batch in batches:
            is_for_stage = pc.equal(batch.column("stage"), pa.scalar(self.stage.stage, pa.int32()))
            arrived += envelopes(batch.filter(is_for_stage))
            yield batch.filter(pc.invert(is_for_stage))
        received = iter(arrived)
        del arrived  # the stage frees what it has taken
        budget = DriverBudget(self.most_to_driver)
        outboxes = partial(ArrowOutbox, directory=self.frames, budget=budget)
        for outbox in self.stage.run(received, self.open_store(), outboxes):
            yield outbox.batch()
            del outbox  # so that its bytes are freed before the next lane is computed
        return_freed_memory()


@lru_cache(maxsize=4)
def _store(settings: StoreSettings) -> BackgroundRuns:
    return BackgroundRuns(settings.state.open().runs(settings.fragment, settings.cache, settings.memory_limit))
