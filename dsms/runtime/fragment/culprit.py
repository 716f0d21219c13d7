"""Which query ends the workers that run it: a search by halves, as one frozen value and its transitions.

Workers that die take the batch of all queries with them, and nothing says whose rows took the memory. So halves of the
queries run alone, until one query has failed alone. Who runs them, the executor, tells how each trial ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

#: A death this many seconds after a search has nothing to do with it.
APART_S = 120.0
#: By what batches are divided at each step, and how many steps there are.
_SMALLER, _STEPS = 16, 4
#: So many times a query has to end its workers alone, each time in smaller batches: one death may be an accident.
_ALONE = 2


class Trial(msgspec.Struct, frozen=True):
    """Queries that run alone, in batches that are `smaller` by so many steps."""

    queries: tuple[str, ...]
    smaller: int = 0


class Search(msgspec.Struct, frozen=True):
    """A search, or the rest between two: then all queries run. A culprit that is found is in `failed` with the reason,
    by query, until it is `released`.

    >>> search = Search().died(("a", "b", "c"), 0.0, "no memory")

    The newest queries are tried first, since older ones have run before; a single one in smaller batches, so that none
    fails that needs only these.

    >>> search.trial, search.died(("c", "b"), 5.0, "no memory").trial
    (Trial(queries=('c', 'b'), smaller=0), Trial(queries=('c',), smaller=1))
    >>> search = search.died(("c", "b"), 5.0, "no memory").passed(6.0)
    >>> search.trial, search.died(("b",), 7.0, "no memory").trial
    (Trial(queries=('b',), smaller=1), Trial(queries=('b',), smaller=2))
    >>> search.died(("b",), 7.0, "no memory").died(("b",), 8.0, "no memory").failed
    {'b': 'no memory'}

    If each part lives, it may have been an accident; the second time the queries are too much only together, and
    batches are smaller from then on.

    >>> search = search.passed(9.0)
    >>> search.trial, search.smaller
    (None, 0)
    >>> search = search.died(("a", "b"), 10.0, "no memory").passed(11.0).passed(12.0)
    >>> search.trial, search.smaller, search.together
    (None, 1, ('b', 'a'))
    """

    #: The parts of the suspects that are to be tried; the first one is on trial.
    parts: tuple[tuple[str, ...], ...] = ()
    #: Whether the last search found nobody, and when it ended or began, in seconds.
    missed: bool = False
    at: float = 0.0
    failed: dict[str, str] = {}
    #: By how many steps batches are smaller.
    smaller: int = 0
    #: The queries whose workers died last while they ran together.
    together: tuple[str, ...] = ()
    #: How often the query on trial has ended its workers alone.
    alone: int = 0

    @property
    def trial(self) -> Trial | None:
        """What runs alone; None if there is no search."""
        if not self.parts:
            return None
        single = len(self.parts[0]) == 1
        return Trial(self.parts[0], min(self.smaller + single * (1 + self.alone), _STEPS))

    def died(self, running: Collection[str], now: float, reason: str) -> Search:
        """The search after the workers of these queries have died; `reason` becomes that of the culprit."""
        if not running:
            return self
        if not self.parts:
            missed = self.missed and now - self.at <= APART_S
            return msgspec.structs.replace(self, missed=missed, at=now)._among(_newest_first(running))
        if len(self.parts[0]) > 1:
            return self._among(self.parts[0])
        if self.alone + 1 < _ALONE:
            return msgspec.structs.replace(self, alone=self.alone + 1)
        return msgspec.structs.replace(self.ended(), failed={**self.failed, self.parts[0][0]: reason})

    def passed(self, now: float) -> Search:
        """The search after the queries on trial have done all there was to do, or a fair part of it."""
        if len(self.parts) > 1:
            return msgspec.structs.replace(self, parts=self.parts[1:], alone=0)
        smaller = min(self.smaller + self.missed, _STEPS)
        return msgspec.structs.replace(self, parts=(), missed=True, at=now, smaller=smaller, alone=0)

    def released(self, queries: Iterable[str]) -> Search:
        """The search when these are the queries that there are: those that were dropped, paused or replaced are neither
        failed nor suspects, so a search among them ends."""
        kept = set(queries)
        failed = {query: reason for query, reason in self.failed.items() if query in kept}
        suspects = {query for part in self.parts for query in part}
        return msgspec.structs.replace(self if suspects <= kept else self.ended(), failed=failed)

    def ended(self) -> Search:
        """Without a search."""
        return msgspec.structs.replace(self, parts=(), missed=False, together=(), alone=0)

    def _among(self, suspects: tuple[str, ...]) -> Search:
        middle = (len(suspects) + 1) // 2
        parts = tuple(part for part in (suspects[:middle], suspects[middle:]) if part)
        return msgspec.structs.replace(self, parts=parts, together=suspects, alone=0)


def smaller_batches(records: int, steps: int) -> int:
    """A number of records, made smaller by some steps.

    >>> smaller_batches(400_000, 1), smaller_batches(10, 4)
    (25000, 1)
    """
    divisor: int = _SMALLER**steps
    return max(records // divisor, 1)


def _newest_first(queries: Collection[str]) -> tuple[str, ...]:
    """Queries by their ids, the last one that was created first."""
    return tuple(sorted(queries, key=lambda query: (len(query.split("@")[0]), query), reverse=True))
