"""The target stage in a Spark worker: receives and sends messages as Arrow batches, and keeps runs in Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from connectors.redis.client import connect
from connectors.redis.run_store import RunStore
from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.memory.cyclic_collector import collect_between_tasks
from dsms.runtime.memory.worker_limit import limit_memory
from dsms.runtime.stages import target_stage
from dsms.runtime.stages.driver_budget import DriverBudget
from dsms.runtime.stages.wire import ArrowOutbox, Envelope, envelopes


@dataclass(frozen=True)
class StoreSettings:
    """Where a fragment's runs are stored: in Redis, up to `memory_limit` bytes, and in a cache directory of the
    host."""

    redis_url: str = field(repr=False)
    cluster: str
    fragment: str
    cache: Path
    memory_limit: int | None = None

    def store(self) -> target_stage.RunStore:
        """The store of this worker process."""
        return _store(self)


@dataclass(frozen=True)
class TargetTask:
    """The function that `mapInArrow` runs for a target stage. `frames` is the directory of large frames, if all workers
    are on one machine."""

    stage: target_stage.TargetStage
    open_store: Callable[[], target_stage.RunStore]
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


class RedisRuns:
    """Reads runs from Redis, and writes them in a thread of its own."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._writer = ThreadPoolExecutor(1, "runs")

    def read(self, name: str) -> pl.DataFrame:
        """A run, mapped from the host's cache; it is fetched into the cache first if necessary."""
        return self._store.read(name)

    def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
        """Begins to write the runs; the returned function waits for them."""
        return self._writer.submit(self._store.write, dict(runs)).result


@lru_cache(maxsize=4)
def _store(settings: StoreSettings) -> RedisRuns:
    place = (settings.cluster, settings.fragment)
    return RedisRuns(RunStore(connect(settings.redis_url), *place, settings.cache, settings.memory_limit))
