"""The settings of an executor process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from dsms.runtime.checkpoints.retention import Retention
from dsms.runtime.epoch.observer import EpochObserver, Unobserved
from dsms.scheduling.tuning import TunableSettings
from dsms.state.stores import StateAddress


def on_one_machine(master: str) -> bool:
    """Whether all workers of a Spark master are on this machine.

    >>> on_one_machine("local[2]"), on_one_machine("spark://10.0.0.1:7077")
    (True, False)
    """
    return master.startswith("local")


@dataclass(frozen=True)
class CheckpointSettings:
    """The URL of the store of checkpoints, how often one is made, and which are kept."""

    url: str
    period_s: float = 300.0
    retention: Retention = Retention()


@dataclass(frozen=True)
class ExecutorSettings:
    """The addresses of the services, and how fragments run.

    `partitions` is the number of targets of every exchange of a fragment that has no state yet. The size of batches
    adapts so that a batch takes `target_batch_s` seconds; a batch of a single lane that lags behind may take
    `behind_batches` times as long.
    """

    kafka: KafkaSettings
    #: The URL of the store of state.
    state_url: str = field(repr=False)
    registry_url: str
    data_dir: Path
    cluster: str = "local"
    executor_id: str = "executor-1"
    master: str = "local[2,2]"
    partitions: int = 2
    source_tasks: int = 2
    #: Whether state that was stored for another number of targets is rebuilt from the logs for this one.
    rebuild_for_partitions: bool = False
    first_batch_records: int = 400_000
    min_batch_records: int = 100_000
    max_batch_records: int = 1_000_000
    target_batch_s: float = 1.0
    #: The least time from the beginning of one batch to that of the next, in seconds.
    trigger_interval_s: float = 0.0
    behind_batches: float = 3.0
    #: The scheduling policy: which input is processed first if a batch cannot hold all of it.
    policy: str = "fifo"
    #: The most bytes that the runs of all fragments may take in Redis; None for no limit.
    state_memory: int | None = None
    #: The directory of state files, which executors of one host may share; None for one of its own in `data_dir`.
    state_dir: Path | None = None
    #: Where state is copied to and restored from; None for no checkpoints.
    checkpoints: CheckpointSettings | None = None
    #: A fault point for crash tests, such as `begun:3`; empty in production.
    faults: str = ""
    #: Receives the alarms about invalid records in logs or invalid values in Redis.
    alarms: Alarms = field(default_factory=Alarms, compare=False, repr=False)
    #: Called for each committed epoch.
    observer: EpochObserver = field(default_factory=Unobserved, compare=False, repr=False)

    @property
    def required_targets(self) -> int | None:
        """The number of targets that stored state must have to be used; None if it keeps its own."""
        return self.partitions if self.rebuild_for_partitions else None

    @property
    def state(self) -> StateAddress:
        """The address of the store of state."""
        return StateAddress(self.state_url, self.cluster)

    @property
    def one_machine(self) -> bool:
        """Whether all workers of the Spark master are on this machine."""
        return on_one_machine(self.master)

    @property
    def scratch(self) -> Path:
        """The directory of files that are removed when this run ends."""
        return self.data_dir / "scratch" / self.executor_id

    @property
    def caches(self) -> Path:
        """The directory of all files of runs; those of a fragment are in a directory of its name."""
        return (self.state_dir or self.data_dir / "cache") / self.cluster

    @property
    def tunable(self) -> TunableSettings:
        """The tunable settings with which the executor starts."""
        return TunableSettings(
            self.min_batch_records,
            self.max_batch_records,
            self.target_batch_s,
            self.policy,
            self.state_memory,
            one_host=self.one_machine,
            trigger_interval_seconds=self.trigger_interval_s,
        )
