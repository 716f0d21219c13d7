"""The search for queries that end the workers: it terminates, finds all culprits, and fails no other query."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dsms.runtime.fragment.culprit import CulpritSearch, Trial

NAMES = st.integers(1, 40).map(lambda count: tuple(f"o{number}" for number in range(1, count + 1)))
REASON = "no memory"


class Workers:
    """Workers that die if a culprit runs, or if more queries run together than they have memory for."""

    def __init__(self, queries: tuple[str, ...], culprits: set[str], most: int = 1_000) -> None:
        self.queries, self.culprits, self.most = queries, culprits, most
        self.search, self.now, self.trials = CulpritSearch(), 0.0, 0

    def run(self) -> bool:
        """Completes the current search, if any; returns whether all queries that have not failed run together then."""
        while (trial := self.search.trial) is not None:
            self._ends(trial.queries, trial.smaller)
        running = tuple(query for query in self.queries if query not in self.search.failed)
        return not self._ends(running, self.search.smaller)

    def _ends(self, running: tuple[str, ...], smaller: int) -> bool:
        self.now, self.trials = self.now + 1, self.trials + 1
        self.search = msgspec.json.decode(
            msgspec.json.encode(self.search), type=CulpritSearch
        )  # as it is stored and read
        dies = bool(self.culprits & set(running)) or len(running) > self.most << smaller
        if dies:
            self.search = self.search.died(running, self.now, REASON)
        elif self.search.trial is not None:
            self.search = self.search.passed(self.now)
        return dies


@given(NAMES, st.data())
def test_all_culprits_are_found_in_bounded_trials_and_no_other_query_fails(
    queries: tuple[str, ...], data: st.DataObject
) -> None:
    culprits = data.draw(st.sets(st.sampled_from(queries), max_size=4))
    workers = Workers(queries, culprits)
    while not workers.run():
        assert set(workers.search.failed) <= culprits
    assert workers.search.failed == dict.fromkeys(culprits, REASON)
    # the first death, and for each culprit two parts at each step
    assert workers.trials <= 1 + len(culprits) * (1 + 2 * len(queries).bit_length())
    assert workers.search.smaller == 0


@given(NAMES, st.integers(1, 40))
def test_queries_that_are_too_much_only_together_run_in_smaller_batches_and_none_fails(
    queries: tuple[str, ...], most: int
) -> None:
    workers = Workers(queries, set(), most)
    for _ in range(4 * 7 + 1):
        if workers.run():
            break
    assert workers.run() and workers.search.failed == {}
    assert (workers.search.smaller > 0) == (len(queries) > most)


@given(NAMES, st.lists(st.floats(120.1, 1e6), min_size=2, max_size=9))
def test_single_worker_deaths_fail_no_query(queries: tuple[str, ...], gaps: list[float]) -> None:
    search, now = CulpritSearch(), 0.0
    for gap in gaps:
        now += gap
        search = search.died(queries, now, REASON)
        while search.trial is not None:
            search = search.passed(now)
        assert search.failed == {} and search.smaller == 0


def test_a_query_that_is_dropped_meanwhile_ends_the_search_and_one_that_is_resumed_may_run_again() -> None:
    search = CulpritSearch().died(("o1", "o2", "o3"), 1.0, REASON)
    assert search.trial == Trial(("o3", "o2"))
    assert search.released(("o1", "o2", "o3", "o4")) == search
    assert search.released(("o1", "o2")).trial is None
    found = search.died(("o3", "o2"), 3.0, REASON).passed(4.0).died(("o2",), 5.0, REASON).died(("o2",), 6.0, REASON)
    assert found.failed == {"o2": REASON} and found.trial is None
    assert found.released(("o1", "o3")).failed == {}


def test_query_that_fails_alone_is_retried_with_smaller_batches() -> None:
    search = CulpritSearch().died(("o1",), 1.0, REASON)
    assert search.trial == Trial(("o1",), 1)
    once = search.passed(2.0)
    assert (once.trial, once.smaller) == (None, 0)
    twice = once.died(("o1",), 3.0, REASON).passed(4.0)
    assert (twice.trial, twice.smaller) == (None, 1)
    again = twice.died(("o1",), 5.0, REASON)
    assert again.trial == Trial(("o1",), 2)
    assert again.died(("o1",), 6.0, REASON).died(("o1",), 7.0, REASON).failed == {"o1": REASON}


def test_two_successive_worker_deaths_fail_no_query() -> None:
    search = CulpritSearch().died(("o1",), 1.0, REASON).died(("o1",), 6.0, REASON)
    assert (search.failed, search.trial) == ({}, Trial(("o1",), 2))
    assert search.passed(7.0).trial is None
    among = (
        CulpritSearch()
        .died(("o1", "o2"), 1.0, REASON)
        .died(("o2",), 2.0, REASON)
        .passed(3.0)
        .died(("o1",), 4.0, REASON)
    )
    assert (among.failed, among.trial) == ({}, Trial(("o1",), 2))


def test_the_newest_queries_are_tried_first() -> None:
    assert CulpritSearch().died(("o10", "o9", "o2@0of2", "o11"), 1.0, REASON).parts == (
        ("o11", "o10"),
        ("o9", "o2@0of2"),
    )
