"""The schedule of disturbances: a pure function of the seed, the length of the run, and what this machine can do."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

EXECUTORS = ("executor-1", "executor-2")
#: An executor that comes and goes.
GUEST = "executor-3"
COORDINATOR, KAFKA, REDIS = "coordinator", "kafka", "redis"
#: The pauses between the beginnings of two disturbances: mostly up to the first, now and then up to the second, so that
#: the cluster makes progress.
PAUSES_S = (8.0, 40.0)


@dataclass(frozen=True)
class Kind:
    """A kind of disturbance: its possible targets, and how long it may last."""

    name: str
    targets: tuple[str, ...]
    longest_s: float = 0.0


@dataclass(frozen=True)
class Disturbance:
    """One failure: it begins at a second of the run and is healed `hold_s` later. `size` is between -1 and 1; what
    it means depends on the kind."""

    number: int
    at_s: float
    kind: str
    target: str
    hold_s: float
    size: float

    def __str__(self) -> str:
        """As it is shown and logged."""
        return f"#{self.number} {self.kind} {self.target} for {self.hold_s:.1f} s"


KILL, FREEZE, KILL_WORKERS, KILL_PLANNER = "kill", "freeze", "kill the Spark workers of", "kill the planner of"
CUT, SILENCE, RESTART, EMPTY, EMPTY_DISK = "cut", "silence", "crash", "flush", "lose the disk of"
DELIVER_LATE = "deliver late to"
STEP_CLOCK, FILL_DISK, LEAVE, JOIN = "step the clock of", "fill the disk of", "stop", "add"
KINDS = (
    Kind(KILL, (*EXECUTORS, COORDINATOR), 6),
    Kind(FREEZE, (*EXECUTORS, COORDINATOR), 12),
    Kind(KILL_WORKERS, EXECUTORS),
    Kind(KILL_PLANNER, EXECUTORS),
    Kind(CUT, (KAFKA, REDIS), 10),
    Kind(SILENCE, (KAFKA, REDIS), 12),
    Kind(DELIVER_LATE, (KAFKA,), 20),
    Kind(RESTART, (KAFKA, REDIS), 5),
    Kind(EMPTY, (REDIS,)),
    Kind(EMPTY_DISK, (REDIS,), 2),
    Kind(STEP_CLOCK, (*EXECUTORS, COORDINATOR), 20),
    Kind(FILL_DISK, (*EXECUTORS, REDIS), 10),
    Kind(LEAVE, EXECUTORS, 15),
    Kind(JOIN, (GUEST,), 40),
)


def timeline(seed: int, seconds: float, unable: Collection[str] = ()) -> tuple[Disturbance, ...]:
    """The disturbances of a run, in order. Kinds that this machine is `unable` to do are left out.

    >>> plan = timeline(1, 60)
    >>> plan == timeline(1, 60), plan[0].at_s < plan[-1].at_s < 60
    (True, True)
    >>> {each.kind for each in timeline(1, 600, unable=("kill",))} == {kind.name for kind in KINDS} - {"kill"}
    True
    """
    return tuple(_disturbances(random.Random(f"disturbances {seed}"), seconds, unable))


def _disturbances(chance: random.Random, seconds: float, unable: Collection[str]) -> Iterator[Disturbance]:
    kinds = [kind for kind in KINDS if kind.name not in unable]
    at, number = 0.0, 0
    while (at := at + chance.uniform(0.2, PAUSES_S[chance.random() < 0.15])) < seconds:
        kind = chance.choice(kinds)
        number += 1
        yield Disturbance(
            number, at, kind.name, chance.choice(kind.targets), chance.uniform(0, kind.longest_s), chance.uniform(-1, 1)
        )
