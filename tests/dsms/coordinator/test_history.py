"""The history of the load of queries: when samples are taken, how long they are kept, and what is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.coordinator.watcher.history import HOURS, History, seconds_between
from dsms.coordinator.watcher.progress import Progress
from dsms.introspection.entities import QueryUsage
from dsms.model.catalog import Catalog
from tests.support.fake_environment import apply_all

STATEMENTS = """REGISTER SOURCE s (a INT) FROM 's' PARTITIONS 1 TAGGED NONE; CREATE STREAM t OVER s KEY NULL;
CREATE VIEW p AS SELECT STREAMED a FROM t; CREATE VIEW q AS SELECT STREAMED a + 1 AS b FROM t"""


@dataclass
class Measured:
    """A catalog with what was measured of its queries, and a clock."""

    catalog: Catalog = field(default_factory=lambda: apply_all(STATEMENTS)[0])
    progress: Mapping[str, Progress] = field(default_factory=dict)
    usage: Mapping[str, QueryUsage] = field(default_factory=dict)
    now: float = 1_000_000.0

    def history(self) -> History:
        return History(lambda: self.catalog, lambda: self.progress, lambda: self.usage, lambda: self.now)

    def id(self, name: str) -> str:
        return self.catalog.find(name).id


def test_a_sample_is_taken_every_ten_seconds() -> None:
    measured = Measured()
    history, q = measured.history(), measured.id("q")
    measured.progress = {q: Progress(5, 7, rate=3.14159)}
    measured.usage = {"q": QueryUsage(0.5, 100)}
    for _ in range(41):
        history.turn()
        measured.now += 0.5
    samples = history.of(q, 0)
    assert [sample.at for sample in samples] == [1_000_000_000, 1_000_010_000, 1_000_020_000]
    assert samples[0][1:] == (3.1, 7, 100, 0.5)
    assert history.of(q, 1_000_000_001) == samples[1:]
    assert history.of(measured.id("p"), 0) == [], "its progress is not known"


def test_samples_of_six_hours_are_kept_and_those_of_dropped_queries_are_not() -> None:
    measured = Measured()
    history, q = measured.history(), measured.id("q")
    measured.progress = {q: Progress(5, 7)}
    for _ in range(3 * HOURS):
        history.turn()
        measured.now += 1800
    samples = history.of(q, 0)
    assert len(samples) == 2 * HOURS + 1 and samples[-1].at - samples[0].at == HOURS * 3_600_000
    measured.catalog = apply_all(STATEMENTS.rpartition(";")[0])[0]
    history.turn()
    assert history.of(q, 0) == []


def test_a_query_that_starts_again_keeps_its_samples() -> None:
    measured = Measured()
    history, q = measured.history(), measured.id("q")
    measured.progress = {q: Progress(5, 7)}
    history.turn()
    measured.progress, measured.now = {}, measured.now + 60
    history.turn()
    assert len(history.of(q, 0)) == 1


def test_all_samples_fit_whatever_the_number_of_queries() -> None:
    for queries in (0, 1, 92, 93, 1_000, 100_000):
        assert queries * HOURS * 3600 / seconds_between(queries) <= 200_000
