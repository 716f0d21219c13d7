"""A history: everything that happens to a simulated service, as frozen data. One history has one outcome.

It is drawn from a seed, printed in the report of a failure, and shrunk by leaving parts of it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.simulation.faults import Fault
from connectors.simulation.scheduler import EPOCH_S
from dsms.registration.queries import RESULT_PREFIX

_TABLE = re.compile(r"CREATE TABLE (\w+)")
_REPLACES = re.compile(r"(?:CREATE OR REPLACE (?:STREAMED )?(?:VIEW|QUERY)|REPAIR QUERY) (\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """Statements that a client sends at an instant of virtual time. The client sends them again if the answer is lost,
    or the service is not ready."""

    at_s: float
    sql: str


@dataclass(frozen=True, slots=True)
class Publication:
    """A record that a producer sends. `heartbeat` makes it a heartbeat, which promises that no record of the partition
    below that instant follows."""

    at_s: float
    topic: str
    partition: int
    value: bytes | None = None
    key: bytes | None = None
    ts: int | None = None
    op: str | None = None
    heartbeat: int | None = None


@dataclass(frozen=True, slots=True)
class AddedPartitions:
    """The number of partitions of a topic is raised."""

    at_s: float
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class RecreatedTopic:
    """A topic of a source is deleted and created again, with as many partitions as at the beginning."""

    at_s: float
    topic: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The services and their settings."""

    executors: int = 2
    fragments: int = 2
    targets: int = 2
    brokers: int = 2
    #: The level of Kafka's feature `transaction.version`: from 2 on, each transaction has a producer epoch of its own.
    transaction_version: int = 2
    #: Whether brokers verify that a partition was added to a transaction before they write to it.
    verification: bool = True
    #: The most records of a batch.
    batch_records: int = 40
    #: Seconds between checkpoints, which are in a directory that all hosts share; None for no checkpoints.
    checkpoint_s: float | None = None

    @property
    def executor_names(self) -> list[str]:
        """The names of the executors, which are also those of their hosts."""
        return [f"executor-{number}" for number in range(1, self.executors + 1)]


@dataclass(frozen=True)
class History:
    """The seed of all choices that are not listed, the layout, what clients and producers do, and the faults.

    `topics` are the source topics, with their numbers of partitions. `until_s` is when clients, producers and faults
    have ended.
    """

    seed: int
    topics: Mapping[str, int]
    statements: tuple[Statement, ...]
    publications: tuple[Publication, ...]
    faults: tuple[Fault, ...] = ()
    layout: Layout = field(default_factory=Layout)
    added: tuple[AddedPartitions, ...] = ()
    recreated: tuple[RecreatedTopic, ...] = ()
    #: The topics that each query reads, by its name, if all of them may be idle: in the end, the query must have passed
    #: all their records.
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Seconds since 1970 at which it begins.
    epoch_s: float = EPOCH_S

    @property
    def until_s(self) -> float:
        """When the last thing of the history has happened."""
        times = [statement.at_s for statement in self.statements]
        times += [publication.at_s for publication in self.publications]
        times += [added.at_s for added in self.added]
        times += [recreated.at_s for recreated in self.recreated]
        return max([*times, *(fault.at_s + max(fault.for_s, 0.0) for fault in self.faults)], default=0.0)

    @property
    def replaced(self) -> frozenset[str]:
        """The names of the queries that statements replace."""
        found = (_REPLACES.match(statement.sql) for statement in self.statements)
        return frozenset(match[1] for match in found if match is not None)

    @property
    def logs(self) -> frozenset[str]:
        """The topics whose records users write: those of sources, and the logs of tables."""
        created = (_TABLE.match(statement.sql) for statement in self.statements)
        return frozenset((*self.topics, *(f"{RESULT_PREFIX}{match[1]}" for match in created if match is not None)))

    @property
    def drops(self) -> bool:
        """Whether statements drop or replace something."""
        return bool(self.replaced) or any(statement.sql.startswith("DROP ") for statement in self.statements)

    @property
    def size(self) -> int:
        """How much happens: shrinking makes this smaller."""
        parts = self.statements, self.publications, self.faults, self.added, self.recreated
        return sum(len(each) for each in parts)
