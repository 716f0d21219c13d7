"""How many executors there should be: a pure decision over how far queries are behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

#: Fewer executors are tried again once records come at this part of the rate at which they once fell behind.
_LESS = 0.7
#: How long a query that falls behind may seem to catch up, and for how long it is remembered that one did.
_MOMENT_S, _DAY_S = 10.0, 86_400.0


@dataclass(frozen=True)
class Scaling:
    """The bounds of the number of executors, for how many seconds a query has to fall behind before there are more of
    them, and for how many none must be before there are fewer."""

    least: int
    most: int
    up_s: float = 30.0
    down_s: float = 300.0


@dataclass(frozen=True)
class Load:
    """What is known of the executors at one moment: how many are asked for and ready, how many fragments there are for
    them to run, whether a query falls behind or all have read what there is (neither holds while one catches up), how
    many records come for all queries a second, and which queries these are."""

    asked: int
    ready: int
    fragments: int
    pace: Literal["behind", "catching up", "caught up"]
    arriving: float
    queries: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outlook:
    """What is remembered between two moments: the pace, since when it has been that (None: not yet) and when it last
    was; and for each number of executors the least rate at which these queries fell behind, with the time."""

    pace: str = ""
    since: float | None = None
    last: float = 0.0
    fell_behind_at: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    queries: frozenset[str] = frozenset()
    #: How many there were before there was one fewer; 0 after there were more.
    before: int = 0


def wanted(load: Load, scaling: Scaling, past: Outlook, now: float) -> tuple[int, Outlook]:
    """The number of executors to ask for, and what to remember.

    Twice as many where a query has fallen behind for `up_s`, since each step takes the time in which an executor
    starts, or as many as before if there was just one fewer. One fewer where all have been caught up for `down_s`,
    unless so few fell behind at nearly the present rate. Never more than there are fragments, which are what executors
    share. While executors start or end there are not more of them.

    >>> scaling, load = Scaling(1, 4, up_s=10, down_s=60), Load(1, 1, 8, "behind", arriving=900.0)
    >>> count, past = wanted(load, scaling, Outlook(), now=0.0)
    >>> count, wanted(load, scaling, past, now=10.0)[0]
    (1, 2)
    """
    past = _of_these_queries(load, past)
    bounded = min(max(load.asked, scaling.least), scaling.most)
    if bounded != load.asked:
        return bounded, replace(past, since=None)
    same = _seen(load, past, now)
    elapsed = now - same.since if same.since is not None else 0.0
    if load.pace == "behind" and load.ready != load.asked:
        return load.asked, replace(same, since=None)
    if load.pace == "behind" and elapsed >= scaling.up_s:
        return _more(load, scaling, same, now)
    if load.pace == "caught up" and elapsed >= scaling.down_s:
        return _fewer(load, scaling, same, now)
    return load.asked, same


def _of_these_queries(load: Load, past: Outlook) -> Outlook:
    """What was remembered of other queries says nothing of these."""
    return past if past.queries == load.queries else replace(past, queries=load.queries, fell_behind_at={})


def _seen(load: Load, past: Outlook, now: float) -> Outlook:
    """The outlook after this moment: a query that catches up for a moment, between two batches, still falls behind."""
    if past.since is not None and past.pace == load.pace:
        return replace(past, last=now)
    if past.since is not None and (past.pace, load.pace) == ("behind", "catching up") and now - past.last <= _MOMENT_S:
        return past
    return replace(past, pace=load.pace, since=now, last=now)


def _more(load: Load, scaling: Scaling, past: Outlook, now: float) -> tuple[int, Outlook]:
    enough = past.before if past.before > load.asked else 2 * load.asked
    count = max(load.asked, min(enough, scaling.most, load.fragments))
    if count == load.asked:
        return count, past
    known = _known(past, load.asked, now)
    least = load.arriving if known is None else min(load.arriving, known)
    return count, Outlook(fell_behind_at={**past.fell_behind_at, load.asked: (least, now)}, queries=past.queries)


def _fewer(load: Load, scaling: Scaling, past: Outlook, now: float) -> tuple[int, Outlook]:
    count = max(load.asked - 1, scaling.least)
    at = _known(past, count, now)
    if count == load.asked or (at is not None and load.arriving > _LESS * at):
        return load.asked, past
    return count, replace(past, since=None, before=load.asked)


def _known(past: Outlook, count: int, now: float) -> float | None:
    """The rate at which so many executors fell behind in the last day."""
    rate, at = past.fell_behind_at.get(count, (None, 0.0))
    return rate if now - at <= _DAY_S else None
