"""Who runs what: assignment of fragments to executors as a pure decision over leases."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Assignment(msgspec.Struct, frozen=True):
    """A fragment belongs to an executor; `lease` grows with every change of hands."""

    executor: str
    lease: int = 1


class LaneStatus(msgspec.Struct, frozen=True):
    """How a query fares: its frontier (None: none yet), the next offset by partition, and why it failed."""

    frontier: int | None = None
    offsets: dict[str, int] = {}
    error: str | None = None


class ExecutorStatus(msgspec.Struct, frozen=True):
    """What an executor says of itself with every sign of life."""

    state: str = "idle"
    plan_version: int = 0
    epoch: int = 0
    batch_records: int = 0
    lanes: dict[str, LaneStatus] = {}
    reason: str = ""
    #: How many records of each source were refused: late, undecodable or in fault in a query.
    dead_letters: dict[str, int] = {}


def assign(current: Assignment | None, alive: Mapping[str, ExecutorStatus]) -> Assignment | None:
    """The assignment of a fragment now: it stays while its executor lives, else a living one takes it; None: nobody
    can.

    >>> assign(Assignment("a", 1), {"b": ExecutorStatus()})
    Assignment(executor='b', lease=2)
    >>> assign(Assignment("a", 1), {"a": ExecutorStatus(), "b": ExecutorStatus()})
    Assignment(executor='a', lease=1)
    """
    if current is not None and current.executor in alive:
        return current
    if not alive:
        return current
    return Assignment(min(alive), (current.lease if current else 0) + 1)
