"""An epoch lists the runs that it stored for queries that failed in it; the commit deletes them."""

from __future__ import annotations

from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from tests.dsms.runtime.test_epoch import message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, start

SQL = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE QUERY Q AS SELECT k, COUNT(*) AS n FROM R(A) GROUP BY k"""


def two_epochs(lost: dict[str, str] | None) -> tuple[World, Manifest, Epoch]:
    """The world after two epochs, the manifest of the first one, and the second one, in which sources are lost."""
    world = World({"t": {0: [message(at, ("abc"[at % 3], at, at, None)) for at in range(20)]}})
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    first = epoch(world, start(catalog, 2), 10, 1)
    publish(world, first)
    revision = revised(start(catalog, 2).plan, first.manifest, ())
    return world, first.manifest, epoch(world, revision, 10, 1, lost=lost)


def test_runs_of_failed_queries_are_unused() -> None:
    world, before, done = two_epochs({"o1": "its topic is gone"})
    assert done.failures == {"o3": "its topic is gone"}
    assert done.manifest.names() == before.names()
    assert done.unused_runs and not done.unused_runs & before.names()
    assert world.runs.missing(done.unused_runs) == set(), "they are stored"


def test_without_failures_no_run_is_unused() -> None:
    _, before, done = two_epochs(None)
    assert done.failures == {} and done.unused_runs == frozenset()
    assert done.manifest.names() != before.names()
