"""Answers SELECTs over little input in processes with the priority of the coordinator, as long as they are quick."""

from __future__ import annotations

import time

from dsms.model.limits import Limits
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.select_budget import Budget, TookTooLong
from dsms.tables.select_pool import SelectPool
from dsms.tables.select_process import Form, Reply

#: The most bytes of input, and the most seconds, of a quick SELECT.
_LITTLE, _QUICK_S = 16 * 1024 * 1024, 0.5
#: For how many seconds all SELECTS have the lowest priority after one that was not quick, so that slow ones cannot take
#: more than a sixtieth of a processor from the coordinator.
_PAUSE_S = 30.0


class QuickSelects:
    """Answers in quick processes, and in those of another pool what has much input or was not quick. A process of the
    lowest priority may wait a second for each step on a busy machine, even for a SELECT that takes a millisecond."""

    def __init__(self, limits: Limits, others: SelectPool) -> None:
        self._quick, self._others = SelectPool(limits, limits.selects), others
        self._paused_until = float("-inf")

    def reply(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        """The answer to a query, for a statement that the other pool has admitted."""
        little = sum(rows.nbytes for rows in asked.relations.values()) <= _LITTLE
        if not little or time.monotonic() < self._paused_until:
            return self._others.reply(asked, form, budget)
        quick = Budget(budget.limits, min(budget.deadline, time.monotonic() + _QUICK_S), budget.cancelled)
        deadline = quick.deadline
        try:
            return self._quick.reply(asked, form, quick)
        except TookTooLong:
            self._paused_until = time.monotonic() + _PAUSE_S
        finally:
            budget.deadline += quick.deadline - deadline  # the start of a process does not count
        return self._others.reply(asked, form, budget)

    def close(self) -> None:
        """Ends the quick processes."""
        self._quick.close()
