"""Decides, as a pure function, how many executors are needed, by whether queries fall behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

#: A number of executors at which queries fell behind is tried again once the arrival rate is at most this part of the
#: rate then.
_LOWER_RATE = 0.7
#: A query that falls behind still counts as behind while it seems to catch up for at most this many seconds.
_MOMENT_S = 10.0
#: For how many seconds a rate at which queries fell behind is remembered.
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Scaling:
    """The bounds of the number of executors. It grows after a query has fallen behind for `up_s` seconds, and shrinks
    after all queries have been caught up for `down_s` seconds."""

    least: int
    most: int
    up_s: float = 30.0
    down_s: float = 300.0


@dataclass(frozen=True)
class ExecutorLoad:
    """The load at one moment: the numbers of requested and ready executors, the number of fragments, the pace of the
    queries, the records that arrive for all queries a second, and the queries.

    The pace is "behind" if a query falls behind, "caught up" if all have read their sources to the end, and "catching
    up" otherwise.
    """

    requested: int
    ready: int
    fragments: int
    pace: Literal["behind", "catching up", "caught up"]
    arriving: float
    queries: frozenset[str] = frozenset()


@dataclass(frozen=True)
class History:
    """The memory between two decisions: the pace, since when it has lasted (None: unknown), and when it was last seen;
    for each number of executors, the least arrival rate at which these queries fell behind, with the time.
    """

    pace: str = ""
    since: float | None = None
    last: float = 0.0
    fell_behind_at: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    queries: frozenset[str] = frozenset()
    #: The number of executors before it was last reduced by one; 0 after an increase.
    count_before_decrease: int = 0


def desired_count(load: ExecutorLoad, scaling: Scaling, past: History, now: float) -> tuple[int, History]:
    """The number of executors to request, and the new history.

    If a query has fallen behind for `up_s`, the number doubles, because each increase costs the start time of an
    executor. If the last change was a decrease by one, it is undone instead. If all queries have been caught up for
    `down_s`, the number decreases by one, unless queries fell behind with the smaller number at nearly the current
    rate. An increase never goes beyond the number of fragments, and the number does not grow while executors start or
    end.

    >>> scaling, load = Scaling(1, 4, up_s=10, down_s=60), ExecutorLoad(1, 1, 8, "behind", arriving=900.0)
    >>> count, past = desired_count(load, scaling, History(), now=0.0)
    >>> count, desired_count(load, scaling, past, now=10.0)[0]
    (1, 2)
    """
    past = _of_these_queries(load, past)
    bounded = min(max(load.requested, scaling.least), scaling.most)
    if bounded != load.requested:
        return bounded, replace(past, since=None)
    same = _with_pace(load, past, now)
    elapsed = now - same.since if same.since is not None else 0.0
    if load.pace == "behind" and load.ready != load.requested:
        return load.requested, replace(same, since=None)
    if load.pace == "behind" and elapsed >= scaling.up_s:
        return _more(load, scaling, same, now)
    if load.pace == "caught up" and elapsed >= scaling.down_s:
        return _fewer(load, scaling, same, now)
    return load.requested, same


def _of_these_queries(load: ExecutorLoad, past: History) -> History:
    """Drops the remembered rates if the queries have changed."""
    return past if past.queries == load.queries else replace(past, queries=load.queries, fell_behind_at={})


def _with_pace(load: ExecutorLoad, past: History, now: float) -> History:
    """The history after this moment. A query that seems to catch up briefly, between two batches, still counts as
    behind.
    """
    if past.since is not None and past.pace == load.pace:
        return replace(past, last=now)
    if past.since is not None and (past.pace, load.pace) == ("behind", "catching up") and now - past.last <= _MOMENT_S:
        return past
    return replace(past, pace=load.pace, since=now, last=now)


def _more(load: ExecutorLoad, scaling: Scaling, past: History, now: float) -> tuple[int, History]:
    enough = past.count_before_decrease if past.count_before_decrease > load.requested else 2 * load.requested
    count = max(load.requested, min(enough, scaling.most, load.fragments))
    if count == load.requested:
        return count, past
    known = _known(past, load.requested, now)
    least = load.arriving if known is None else min(load.arriving, known)
    return count, History(fell_behind_at={**past.fell_behind_at, load.requested: (least, now)}, queries=past.queries)


def _fewer(load: ExecutorLoad, scaling: Scaling, past: History, now: float) -> tuple[int, History]:
    count = max(load.requested - 1, scaling.least)
    at = _known(past, count, now)
    if count == load.requested or (at is not None and load.arriving > _LOWER_RATE * at):
        return load.requested, past
    return count, replace(past, since=None, count_before_decrease=load.requested)


def _known(past: History, count: int, now: float) -> float | None:
    """The rate at which this number of executors fell behind in the last day; None if it did not."""
    rate, at = past.fell_behind_at.get(count, (None, 0.0))
    return rate if now - at <= _DAY_S else None
