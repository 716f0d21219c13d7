"""The events of a step of an aggregate over a stream: rows that enter and leave, in order, some with results."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER
from operators.kernels.random_fraction import random_fractions
from operators.user_aggregates.evaluate import Events
from operators.user_aggregates.fold_plan import FoldCall, Frame
from operators.user_aggregates.generate import COME, END, LEAVE, RESTART


@dataclass(frozen=True)
class Batch:
    """The rows that enter, sorted by group and then by time; each group's rows are at `starts` ≤ index < `ends`.

    `number` is the number of a row in its group, from 1. `shown` marks the rows that have a result.
    """

    rows: pl.DataFrame
    group: np.ndarray
    number: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    shown: np.ndarray

    @property
    def instants(self) -> np.ndarray:
        """The instants at which the rows entered."""
        return self.rows[FROM].to_numpy()


@dataclass(frozen=True)
class Leaving:
    """Rows that may leave the window: their groups, numbers and instants, and a frame with the arguments of the
    calls."""

    rows: pl.DataFrame
    group: np.ndarray
    number: np.ndarray
    instants: np.ndarray


@dataclass(frozen=True)
class Ordered:
    """The events of a call, and for each the index of the row to which its result belongs. The rows that enter are
    numbered first, then those that leave."""

    events: Events
    row_index: np.ndarray


def without_leaving(call: FoldCall, frame: Frame | None, batch: Batch) -> Ordered:
    """The events if rows only enter: all rows or, for tumbling windows, the last rows of each slot, which starts
    over."""
    code = np.full(len(batch.group), COME)
    at = np.arange(len(batch.group))
    if call.mode == "tumble":
        assert frame is not None and frame.length is not None
        slot, length = frame.slide or 1, frame.length
        number = (batch.number - 1) % slot + 1
        code[number == slot - length + 1] |= RESTART
        at = np.flatnonzero(number > slot - length)
    if call.ends:
        code[batch.shown] |= END
    return Ordered(_events(call, batch, None, at, code[at]), at)


def with_leaving(call: FoldCall, batch: Batch, leaving: Leaving, trigger: np.ndarray) -> Ordered:
    """The events if each leaving row leaves just before its `trigger` row enters. The values that EXPIRE returns belong
    to the results of the trigger row."""
    come, leave = np.arange(len(batch.group)), np.arange(len(leaving.group))
    sorting = np.lexsort(
        (
            np.concatenate([batch.number, leaving.number]),
            np.concatenate([np.ones(len(come), np.int64), np.zeros(len(leave), np.int64)]),
            np.concatenate([come, trigger]),
        )
    )
    code = np.concatenate([np.full(len(come), COME), np.full(len(leave), LEAVE)])
    if call.ends:
        code[: len(come)][batch.shown] |= END
    row_index = np.concatenate([come, trigger])
    return Ordered(_events(call, batch, leaving, sorting, code[sorting]), row_index[sorting])


def with_expiry(call: FoldCall, batch: Batch, leaving: Leaving) -> Ordered:
    """The events if rows leave at their own instants, before rows of the same instant enter; both have results."""
    come, leave = len(batch.group), len(leaving.group)
    sorting = np.lexsort(
        (
            np.concatenate([np.arange(come), leaving.number]),
            np.concatenate([np.ones(come, np.int64), np.zeros(leave, np.int64)]),
            np.concatenate([batch.instants, leaving.instants]),
            np.concatenate([batch.group, leaving.group]),
        )
    )
    end = END if call.ends else 0
    code = np.concatenate([np.full(come, COME | end), np.full(leave, LEAVE | end)])
    return Ordered(_events(call, batch, leaving, sorting, code[sorting]), sorting)


def _events(call: FoldCall, batch: Batch, leaving: Leaving | None, indexes: np.ndarray, code: np.ndarray) -> Events:
    """The events of the rows at the `indexes`; the rows that enter are numbered first, then those that leave."""
    parts = [batch.rows] if leaving is None else [batch.rows, leaving.rows]
    group = [batch.group] if leaving is None else [batch.group, leaving.group]
    number = [batch.number] if leaving is None else [batch.number, leaving.number]
    instant = [batch.instants] if leaving is None else [batch.instants, leaving.instants]
    order = np.concatenate([part[ORDER].to_numpy() for part in parts])
    arguments = tuple(pl.concat([part[name] for part in parts])[indexes] for name in call.arguments)
    sizes = np.bincount(np.concatenate(group)[indexes], minlength=len(batch.starts))
    return Events(
        sizes,
        code,
        arguments,
        np.concatenate(number)[indexes],
        np.concatenate(instant)[indexes],
        random_fractions(order, 0)[indexes],
    )


def restarts(ordered: Ordered, alive: np.ndarray) -> Ordered:
    """The events, where each group whose window becomes empty is restarted: it has no result until its next row, which
    starts over. `alive` is the number of rows in each window before the events."""
    events, code = ordered.events, ordered.events.code.copy()
    change = ((code & COME) > 0).astype(np.int64) - ((code & LEAVE) > 0).astype(np.int64)
    running = np.cumsum(change)
    firsts = np.cumsum(events.sizes) - events.sizes
    base = np.concatenate([[0], running])[firsts]
    after = running + np.repeat(alive - base, events.sizes)
    code[((code & COME) > 0) & (after == 1)] |= RESTART
    code[after == 0] &= ~END
    return Ordered(replace(events, code=code), ordered.row_index)


def without_unseen(ordered: Ordered) -> Ordered:
    """The events without the rows that leave just before their group starts over, because they have no effect."""
    events = ordered.events
    code, count = events.code, len(events.code)
    if not ((code & RESTART) > 0).any():
        return ordered
    comes = np.where((code & COME) > 0, np.arange(count), count)
    following = np.minimum.accumulate(comes[::-1])[::-1]
    unseen = ((code & LEAVE) > 0) & (np.append(code, 0)[following] & RESTART > 0)
    kept = np.flatnonzero(~unseen)
    group = np.repeat(np.arange(len(events.sizes)), events.sizes)
    number, instant, random = (
        None if values is None else values[kept] for values in (events.number, events.instant, events.random)
    )
    sizes = np.bincount(group[kept], minlength=len(events.sizes))
    arguments = tuple(values.gather(kept) for values in events.arguments)
    return Ordered(Events(sizes, code[kept], arguments, number, instant, random), ordered.row_index[kept])
