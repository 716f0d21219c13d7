"""What an executor does about workers that die of a fragment's queries: it carries out the search for the culprit
(`dsms.runtime.fragment.culprit`) and keeps it in Redis, so that another process goes on with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import structlog

from dsms.physical.fragment_plan import FragmentPlan
from dsms.runtime.fragment.culprit import Search, smaller_batches
from dsms.runtime.memory.worker_limit import limit_text
from dsms.scheduler.tuning import Bounds
from operators.core.alarms import Alarms
from operators.core.decoding import Broken, decoded
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: A trial is passed after so many epochs, even if there is more to do.
_EPOCHS = 3
_SEARCHES = "workers died: queries run in parts until the one is found that ends them"


class Notes(Protocol):
    """Where the searches of fragments are kept."""

    def search(self, fragment: str) -> bytes | None:
        """The search of a fragment as it was kept."""
        ...

    def keep_search(self, fragment: str, body: bytes) -> None:
        """Keeps the search of a fragment."""
        ...


class WorkerDeaths:
    """The search of a fragment. The thread of its runner calls all methods but `committed`, which that of commits
    calls. Without `notes` the search lasts as long as this process."""

    def __init__(self, fragment: str, alarms: Alarms, notes: Notes | None = None) -> None:
        self._fragment, self._alarms, self._notes = fragment, alarms, notes
        self._search: Search | None = None if notes else Search()
        self._epochs, self._counting = 0, threading.Lock()

    @property
    def failed(self) -> Mapping[str, str]:
        """Why the culprits do not run, by query."""
        return self._known.failed

    @property
    def trial(self) -> tuple[str, ...] | None:
        """The queries that run alone; None: all run."""
        trial = self._known.trial
        return None if trial is None else trial.queries

    @property
    def reason(self) -> str | None:
        """What is said of the fragment during a search."""
        return None if self._search is None or self._search.trial is None else _SEARCHES

    def bounds(self, bounds: Bounds) -> Bounds:
        """The bounds of batches, smaller where the search says so."""
        search = self._known
        steps = search.smaller if search.trial is None else search.trial.smaller
        if not steps:
            return bounds
        least, most = (smaller_batches(size, steps) for size in (bounds.min_batch_records, bounds.max_batch_records))
        return msgspec.structs.replace(bounds, min_batch_records=least, max_batch_records=most)

    def begins(self, plan: FragmentPlan) -> None:
        """Follows the plan of a fragment that starts."""
        self.follow(plan)
        with self._counting:
            self._epochs = 0

    def follow(self, plan: FragmentPlan) -> bool:
        """Follows a plan: what is dropped or paused is forgotten. Whether the fragment has to start again, because a
        trial is over."""
        before = self._known
        after = before.released(query for query, planned in plan.queries.items() if not planned.still)
        if before.failed and not after.failed:
            self._alarms.clear(self._place)
        self._keep(after)
        return before.trial != after.trial

    def died(self, running: Mapping[str, str], live: Callable[[], bool]) -> bool:
        """Notes that the workers died while these queries ran, given by id with their names. `live` says whether
        workers live that run no query: if they do not, no query is to blame, and the answer is False."""
        if not running:
            return False
        before = self._known
        after = before.died(list(running), time.time(), _reason())
        blamed = sorted(after.failed.keys() - before.failed.keys())
        if (blamed or (after.trial and not before.trial)) and not live():
            self._keep(before.ended())
            return False
        for query in blamed:
            log.error("query failed, the others go on", query=running[query], reason=after.failed[query])
            self._alarms.raise_at(self._place, f'query "{running[query]}" failed: {after.failed[query]}')
        log.warning("workers died", fragment=self._fragment, search=after.trial, blamed=blamed)
        self._keep(after)
        return True

    def committed(self) -> None:
        """Counts an epoch."""
        with self._counting:
            self._epochs += 1

    def trial_passed(self, running: Mapping[str, str], *, idle: bool) -> bool:
        """Whether the trial has ended well, because its queries have nothing left to do or have done a fair part of it:
        then the search goes on. `running` are all queries of the plan, by id with their names."""
        before = self._known
        if before.trial is None or not (idle or self._epochs >= _EPOCHS):
            return False
        after = before.passed(time.time())
        if after.smaller > before.smaller:
            names = ", ".join(sorted(f'"{running.get(query, query)}"' for query in after.together))
            self._alarms.raise_at(self._place, f"{_together(after)}: {names}")
        log.info("workers lived", fragment=self._fragment, trial=before.trial.queries, search=after.trial)
        self._keep(after)
        return True

    @property
    def _place(self) -> str:
        return f"fragment {self._fragment}"

    @property
    def _known(self) -> Search:
        """The search, as this process or another one has left it. Batches are smaller only in the process that found
        that they have to be: another one may have more memory."""
        if self._search is None:
            assert self._notes is not None
            body = self._notes.search(self._fragment)
            try:
                found = decoded(body, Search) if body else Search()
                self._search = msgspec.structs.replace(found, smaller=0)
            except Broken:
                self._search = Search()  # it is found out again
        return self._search

    def _keep(self, search: Search) -> None:
        changed, self._search = search != self._search, search
        if not changed or self._notes is None:
            return
        try:
            self._notes.keep_search(self._fragment, msgspec.json.encode(search))
        except ExternalError as error:
            log.warning("a search is not kept", reason=str(error))


def _reason() -> str:
    return (
        "the workers that ran it alone died: its batch needs more memory than a worker may take "
        f"({limit_text()}), or it crashes them; let it make less of a record, or give workers more, "
        "then PAUSE and RESUME the query"
    )


def _together(search: Search) -> str:
    return (
        f"workers died of queries that run one by one, so together they need more memory than a worker may take "
        f"({limit_text()}); batches are smaller from now on ({search.smaller})"
    )
