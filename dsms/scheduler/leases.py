"""Who runs what: assignment of fragments to executors as a pure decision over leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dsms.scheduler.tuning import Bounds

#: The states of an executor that cannot run anything yet, that has nothing to run, that runs, and that tries to.
STARTING: Final = "starting"
IDLE: Final = "idle"
RUNNING: Final = "running"
RECOVERING: Final = "recovering"


class Assignment(msgspec.Struct, frozen=True):
    """A fragment belongs to an executor; `lease` grows with every change of hands, also when Redis forgot the last
    one: it is the time of the change in milliseconds, or later."""

    executor: str
    lease: int = 1


class LaneStatus(msgspec.Struct, frozen=True):
    """How a query fares: its frontier (None: none yet), the next offset by partition, and why it failed; the part of
    its input that stays, the rows that were left out, and whether its bound on the error makes it late."""

    frontier: int | None = None
    offsets: dict[str, int] = {}
    error: str | None = None
    stays: float = 1.0
    left_out: int = 0
    late: bool = False

    @property
    def shed(self) -> str:
        """What is left out of its input, in a few words.

        >>> LaneStatus(stays=0.25, left_out=300).shed, LaneStatus(late=True).shed, LaneStatus(left_out=300).shed
        ('shed to 25 %, 300 rows left out', 'late: max_error allows no more shedding', '300 rows left out')
        """
        words = [f"shed to {self.stays:.0%}".replace("%", " %")] if self.stays < 1 else []
        words += [f"{self.left_out} rows left out"] if self.left_out else []
        return ", ".join([*words, *(["late: max_error allows no more shedding"] if self.late else [])])


class FragmentStatus(msgspec.Struct, frozen=True):
    """How a fragment fares on its executor, and its queries. `dead_letters` are the records of each source that were
    refused: late, undecodable or in fault in a query."""

    state: str = RECOVERING
    reason: str = ""
    plan_version: int = 0
    epoch: int = 0
    batch_records: int = 0
    lanes: dict[str, LaneStatus] = {}
    dead_letters: dict[str, int] = {}
    #: The bytes of its state in Redis, and on disk alone.
    redis_bytes: int = 0
    disk_bytes: int = 0


class ExecutorStatus(msgspec.Struct, frozen=True):
    """What an executor says of itself with every sign of life: its fragments' states, and all of these together."""

    state: str = IDLE
    plan_version: int = 0
    epoch: int = 0
    batch_records: int = 0
    lanes: dict[str, LaneStatus] = {}
    reason: str = ""
    dead_letters: dict[str, int] = {}
    fragments: dict[str, str] = {}
    #: Those of its batches and of its state.
    bounds: Bounds | None = None
    #: The bytes of its state in Redis, and on disk alone.
    redis_bytes: int = 0
    disk_bytes: int = 0


def together(parts: Mapping[str, FragmentStatus]) -> ExecutorStatus:
    """The status of an executor that runs fragments: running where all are, at the plan that all have come to.

    >>> together({}).state, together({"0": FragmentStatus("running"), "1": FragmentStatus("recovering")}).state
    ('idle', 'recovering')
    """
    if not parts:
        return ExecutorStatus()
    each = list(parts.values())
    refused = Counter[str]()
    for part in each:
        refused.update(part.dead_letters)
    return ExecutorStatus(
        next((part.state for part in each if part.state != RUNNING), RUNNING),
        min(part.plan_version for part in each),
        max(part.epoch for part in each),
        min(part.batch_records for part in each),
        {query: lane for part in each for query, lane in part.lanes.items()},
        "; ".join(part.reason for part in each if part.reason),
        dict(refused),
        {name: part.state for name, part in parts.items()},
        redis_bytes=sum(part.redis_bytes for part in each),
        disk_bytes=sum(part.disk_bytes for part in each),
    )


def assign(
    current: Mapping[str, Assignment], alive: Mapping[str, ExecutorStatus], fragments: Iterable[str], now_ms: int
) -> dict[str, Assignment]:
    """Who runs what now. A fragment stays while its executor lives; else the living one with the fewest takes it. One
    that starts again has lost what it ran, so another that is ready is sooner. Where one has two more than another, one
    fragment moves: it begins anew there, so no more than that is done at a time.

    >>> alone = assign({}, {"a": ExecutorStatus()}, ["0", "1"], 900)
    >>> alone
    {'0': Assignment(executor='a', lease=900), '1': Assignment(executor='a', lease=900)}
    >>> assign(alone, {"a": ExecutorStatus(), "b": ExecutorStatus()}, ["0", "1"], 950)["1"]
    Assignment(executor='b', lease=950)
    """
    able = [name for name, status in alive.items() if status.state != STARTING] or list(alive)
    assigned = {fragment: current[fragment] for fragment in fragments if fragment in current}
    loads = Counter({name: 0 for name in able})
    loads.update(assignment.executor for assignment in assigned.values() if assignment.executor in able)
    for fragment in fragments if able else ():
        if fragment not in assigned or assigned[fragment].executor not in able:
            assigned[fragment] = _taken(assigned.get(fragment), loads, able, now_ms)
    return assigned | _moved(assigned, loads, able, now_ms)


def _taken(before: Assignment | None, loads: Counter[str], able: list[str], now_ms: int) -> Assignment:
    least = min(able, key=lambda name: (loads[name], name))
    loads[least] += 1
    return Assignment(least, max(now_ms, before.lease + 1 if before else 0))


def _moved(
    assigned: Mapping[str, Assignment], loads: Counter[str], able: list[str], now_ms: int
) -> dict[str, Assignment]:  # fmt: skip
    """The fragment that moves to the executor with the fewest, if any does."""
    if not able:
        return {}
    most, least = max(loads, key=lambda name: loads[name]), min(able, key=lambda name: loads[name])
    if loads[most] - loads[least] < 2:
        return {}
    fragment = max(fragment for fragment, assignment in assigned.items() if assignment.executor == most)
    return {fragment: _taken(assigned[fragment], loads, [least], now_ms)}
