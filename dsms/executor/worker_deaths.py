"""Handles Spark workers that die because of a query: searches for the query.

The decisions of the search are in `dsms.runtime.fragment.culprit`. The search is stored in Redis, so that another
process can continue it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import structlog

from connectors.alarms import Alarms
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.fragment.culprit import CulpritSearch, smaller_batches
from dsms.runtime.memory.worker_limit import limit_text
from dsms.scheduling.tuning import TunableSettings
from operators.core.decoding import Malformed, decoded
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: A trial is passed after this many committed epochs, even if there is more to do.
_EPOCHS = 3
_SEARCHES = "workers died: queries run in groups until the one that kills them is found"


class SearchStore(Protocol):
    """The store of the fragments' searches."""

    def search(self, fragment: str) -> bytes | None:
        """The stored search of a fragment."""
        ...

    def set_search(self, fragment: str, body: bytes) -> None:
        """Stores the search of a fragment."""
        ...


class WorkerDeaths:
    """The search of a fragment. The commit thread calls `committed`, the runner's thread all other methods. Without
    `store` the search is lost when this process ends."""

    def __init__(self, fragment: str, alarms: Alarms, store: SearchStore | None = None) -> None:
        self._fragment, self._alarms, self._store = fragment, alarms, store
        self._search: CulpritSearch | None = None if store else CulpritSearch()
        self._epochs, self._counting = 0, threading.Lock()

    @property
    def failed(self) -> Mapping[str, str]:
        """The queries that kill their workers, which therefore do not run, with the reason."""
        return self._known.failed

    @property
    def trial(self) -> tuple[str, ...] | None:
        """The queries on trial, which run alone; None if there is no trial, so that all run."""
        trial = self._known.trial
        return None if trial is None else trial.queries

    @property
    def reason(self) -> str | None:
        """The reason in the fragment's status during a search."""
        return None if self._search is None or self._search.trial is None else _SEARCHES

    def tunable(self, tunable: TunableSettings) -> TunableSettings:
        """The tunable settings, with smaller batches if the search requires them."""
        search = self._known
        steps = search.smaller if search.trial is None else search.trial.smaller
        if not steps:
            return tunable
        least, most = (smaller_batches(size, steps) for size in (tunable.min_batch_records, tunable.max_batch_records))
        return msgspec.structs.replace(tunable, min_batch_records=least, max_batch_records=most)

    def fragment_starts(self, plan: FragmentPlan) -> None:
        """Follows the plan of a fragment that starts, and counts its epochs from zero."""
        self.follow(plan)
        with self._counting:
            self._epochs = 0

    def follow(self, plan: FragmentPlan) -> bool:
        """Follows a plan: forgets the queries that were dropped or paused. Returns whether the fragment has to restart,
        because that has ended a trial."""
        before = self._known
        after = before.released(query for query, planned in plan.queries.items() if not planned.stopped)
        if before.failed and not after.failed:
            self._alarms.clear(self._place)
        self._keep(after)
        return before.trial != after.trial

    def record_death(self, running: Mapping[str, str], workers_survive: Callable[[], bool]) -> bool:
        """Records that the workers died while these queries, given as names by id, ran. `workers_survive` returns
        whether workers that run no query survive; if they do not, no query is to blame, and the result is False."""
        if not running:
            return False
        before = self._known
        after = before.died(list(running), time.time(), _reason())
        blamed = sorted(after.failed.keys() - before.failed.keys())
        if (blamed or (after.trial and not before.trial)) and not workers_survive():
            self._keep(before.ended())
            return False
        for query in blamed:
            log.error("query failed; the others keep running", query=running[query], reason=after.failed[query])
            self._alarms.raise_at(self._place, f'query "{running[query]}" failed: {after.failed[query]}')
        log.warning("workers died", fragment=self._fragment, search=after.trial, blamed=blamed)
        self._keep(after)
        return True

    def committed(self) -> None:
        """Counts a committed epoch."""
        with self._counting:
            self._epochs += 1

    def trial_passed(self, running: Mapping[str, str], *, idle: bool) -> bool:
        """Whether the queries on trial have passed: they have computed all available input or `_EPOCHS` epochs. If so,
        the search goes on to its next step. `running` are the names of all queries of the plan, by id."""
        before = self._known
        if before.trial is None or not (idle or self._epochs >= _EPOCHS):
            return False
        after = before.passed(time.time())
        if after.smaller > before.smaller:
            names = ", ".join(sorted(f'"{running.get(query, query)}"' for query in after.together))
            self._alarms.raise_at(self._place, f"{_together(after)}: {names}")
        log.info("workers survived", fragment=self._fragment, trial=before.trial.queries, search=after.trial)
        self._keep(after)
        return True

    @property
    def _place(self) -> str:
        return f"fragment {self._fragment}"

    @property
    def _known(self) -> CulpritSearch:
        """The search, as this process or another one has stored it. Only the process that found that batches have to be
        smaller makes them smaller, because another one may have more memory."""
        if self._search is None:
            assert self._store is not None
            body = self._store.search(self._fragment)
            try:
                found = decoded(body, CulpritSearch) if body else CulpritSearch()
                self._search = msgspec.structs.replace(found, smaller=0)
            except Malformed:
                self._search = CulpritSearch()  # the search starts again
        return self._search

    def _keep(self, search: CulpritSearch) -> None:
        changed, self._search = search != self._search, search
        if not changed or self._store is None:
            return
        try:
            self._store.set_search(self._fragment, msgspec.json.encode(search))
        except ExternalError as error:
            log.warning("the search for the failing query could not be stored", reason=str(error))


def _reason() -> str:
    return (
        "its workers died while it ran alone: it needs more memory than a worker may use "
        f"({limit_text()}), or it crashes them; reduce what it computes for each record, or raise the limit, "
        "then PAUSE and RESUME the query"
    )


def _together(search: CulpritSearch) -> str:
    return (
        "workers died of queries that survive one by one, so together they need more memory than a worker may use "
        f"({limit_text()}); batches are reduced from now on (step {search.smaller})"
    )
