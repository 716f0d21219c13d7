"""Finds the query that kills its Spark workers: a binary search, as one frozen value and its transitions.

A dying worker takes the batch of all queries with it, and nothing shows which query's rows used up the memory. So
halves of the queries run alone, until one query has failed alone. The executor runs them and reports how each trial
ended (`dsms.executor.worker_deaths`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

#: A death more than this many seconds after a search is treated as unrelated to it.
RELATED_DEATH_S = 120.0
#: The divisor of the batch size at each step, and the most steps.
_SMALLER, _STEPS = 16, 4
#: How often a query has to kill its workers alone, each time in smaller batches, because one death may be an accident.
_ALONE = 2


class Trial(msgspec.Struct, frozen=True):
    """Queries that run alone, in batches that are `smaller` by this number of steps."""

    queries: tuple[str, ...]
    smaller: int = 0


class CulpritSearch(msgspec.Struct, frozen=True):
    """A search, or the pause between two searches, in which all queries run. `failed` has the culprits found so far
    with the reasons, by query, until they are `released`.

    >>> search = CulpritSearch().died(("a", "b", "c"), 0.0, "no memory")

    The newest queries are tried first, since older ones have run without deaths. A single query is tried in smaller
    batches, so that it does not fail if these are enough for it.

    >>> search.trial, search.died(("c", "b"), 5.0, "no memory").trial
    (Trial(queries=('c', 'b'), smaller=0), Trial(queries=('c',), smaller=1))
    >>> search = search.died(("c", "b"), 5.0, "no memory").passed(6.0)
    >>> search.trial, search.died(("b",), 7.0, "no memory").trial
    (Trial(queries=('b',), smaller=1), Trial(queries=('b',), smaller=2))
    >>> search.died(("b",), 7.0, "no memory").died(("b",), 8.0, "no memory").failed
    {'b': 'no memory'}

    If the workers survive every part, the death may have been an accident. If that happens a second time, the queries
    need too much memory only together, and batches are smaller from then on.

    >>> search = search.passed(9.0)
    >>> search.trial, search.smaller
    (None, 0)
    >>> search = search.died(("a", "b"), 10.0, "no memory").passed(11.0).passed(12.0)
    >>> search.trial, search.smaller, search.together
    (None, 1, ('b', 'a'))
    """

    #: The parts of the suspects that are to be tried; the first one is on trial.
    parts: tuple[tuple[str, ...], ...] = ()
    #: Whether the last search found no culprit, and when it ended or began, in seconds.
    missed: bool = False
    at: float = 0.0
    failed: dict[str, str] = {}
    #: By how many steps batches are smaller.
    smaller: int = 0
    #: The queries that last ran together when workers died.
    together: tuple[str, ...] = ()
    #: How often the query on trial has killed its workers alone.
    alone: int = 0

    @property
    def trial(self) -> Trial | None:
        """The queries that run alone now; None if there is no search."""
        if not self.parts:
            return None
        single = len(self.parts[0]) == 1
        return Trial(self.parts[0], min(self.smaller + single * (1 + self.alone), _STEPS))

    def died(self, running: Collection[str], now: float, reason: str) -> CulpritSearch:
        """The search after the workers of these queries have died. If this identifies the culprit, it fails with
        `reason`."""
        if not running:
            return self
        if not self.parts:
            missed = self.missed and now - self.at <= RELATED_DEATH_S
            return msgspec.structs.replace(self, missed=missed, at=now)._among(_newest_first(running))
        if len(self.parts[0]) > 1:
            return self._among(self.parts[0])
        if self.alone + 1 < _ALONE:
            return msgspec.structs.replace(self, alone=self.alone + 1)
        return msgspec.structs.replace(self.ended(), failed={**self.failed, self.parts[0][0]: reason})

    def passed(self, now: float) -> CulpritSearch:
        """The search after the queries on trial have survived: they have computed all input, or enough of it."""
        if len(self.parts) > 1:
            return msgspec.structs.replace(self, parts=self.parts[1:], alone=0)
        smaller = min(self.smaller + self.missed, _STEPS)
        return msgspec.structs.replace(self, parts=(), missed=True, at=now, smaller=smaller, alone=0)

    def released(self, queries: Iterable[str]) -> CulpritSearch:
        """The search when these are all queries that should run. Queries that were dropped, paused or replaced are no
        longer failed; if one of them is a suspect, the search ends."""
        kept = set(queries)
        failed = {query: reason for query, reason in self.failed.items() if query in kept}
        suspects = {query for part in self.parts for query in part}
        return msgspec.structs.replace(self if suspects <= kept else self.ended(), failed=failed)

    def ended(self) -> CulpritSearch:
        """This value with no search in progress; known failures stay."""
        return msgspec.structs.replace(self, parts=(), missed=False, together=(), alone=0)

    def _among(self, suspects: tuple[str, ...]) -> CulpritSearch:
        middle = (len(suspects) + 1) // 2
        parts = tuple(part for part in (suspects[:middle], suspects[middle:]) if part)
        return msgspec.structs.replace(self, parts=parts, together=suspects, alone=0)


def smaller_batches(records: int, steps: int) -> int:
    """A number of records, reduced by a number of steps.

    >>> smaller_batches(400_000, 1), smaller_batches(10, 4)
    (25000, 1)
    """
    divisor: int = _SMALLER**steps
    return max(records // divisor, 1)


def _newest_first(queries: Collection[str]) -> tuple[str, ...]:
    """The ids of queries, that of the most recently created query first."""
    return tuple(sorted(queries, key=lambda query: (len(query.split("@")[0]), query), reverse=True))
