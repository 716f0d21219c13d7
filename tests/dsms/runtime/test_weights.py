"""Under overload, a query of greater weight falls behind later, also if it has shared a lane with lighter ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from dsms.runtime.lanes.revision import revised
from dsms.runtime.lanes.weights import weight_of
from dsms.scheduling.tuning import TunableSettings
from tests.dsms.runtime.test_epoch import LOGS, MORE, message, run_with, world_of
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, start, takes
from tests.support.timed_fragment import TimedFragment, fixed

SOURCE = "REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM S OVER T KEY NULL;"
LIGHT = "CREATE QUERY Light AS SELECT k, COUNT(*) AS n FROM R(S) GROUP BY k;"
HEAVY = "CREATE QUERY Heavy WITH (weight = 4) AS SELECT v, COUNT(*) AS n FROM R(S) GROUP BY v;"
BUDGET_S = 0.05


class FedFragment:
    """A fragment whose source gets records at given rates. Each vertex needs `shared` seconds for a row, those that
    only one query needs `own` seconds."""

    def __init__(self, shared: float, own: dict[str, float], policy: str = "weighted_fair", sql: str = "") -> None:
        catalog, _ = apply_all(SOURCE + (sql or LIGHT + HEAVY), environment=FakeEnvironment({"t": {0: 0}}))
        seconds = {frozenset([name]): each for name, each in own.items()}
        self._log, self._came = [], 0.0
        self._fragment = TimedFragment(
            World({"t": {0: self._log}}),
            catalog,
            TunableSettings(1, 100_000, BUDGET_S, policy),
            fixed({}),
            vertex_costs=lambda names: seconds.get(names, shared),
        )
        self._fragment.start()

    def run(self, rate: float, seconds: float) -> None:
        """Runs batches while `rate` records arrive a second."""
        fragment = self._fragment
        until = fragment.now + seconds
        while fragment.now < until:
            before = fragment.now
            fragment.run(1)
            fragment.now = max(fragment.now, before + BUDGET_S / 2)
            self._came += rate * (fragment.now - before)
            self._log += [
                message(at, ("abcdefghij"[at * 7 % 10], at * 13 % 11, at, None))
                for at in range(len(self._log), int(self._came))
            ]

    @property
    def lanes(self) -> list[list[str]]:
        """The names of the queries of each lane."""
        queries, lanes = self._fragment.state.plan.queries, self._fragment.state.revision.manifest.lanes
        return sorted(sorted(queries[query].name for query in lane.queries) for lane in lanes.values())

    def lag(self, name: str) -> int:
        """The records that a query has still to read."""
        queries, lanes = self._fragment.state.plan.queries, self._fragment.state.computed.lanes
        (lane,) = (lane for lane in lanes.values() if name in {queries[query].name for query in lane.queries})
        return len(self._log) - sum(at.offset for at in lane.places.values())


def test_the_heavier_query_keeps_up_and_joins_the_lane_again_after_the_overload() -> None:
    fed = FedFragment(1e-4, {"Heavy": 1e-4, "Light": 1e-3})
    fed.run(100, 1)
    assert fed.lanes == [["Heavy", "Light"]]
    fed.run(1_000, 1)
    assert fed.lanes == [["Heavy"], ["Light"]]
    assert fed.lag("Light") > 500 and fed.lag("Heavy") < 200
    fed.run(5, 12)
    assert fed.lanes == [["Heavy", "Light"]] and fed.lag("Light") < 10


def test_a_lane_is_not_divided_where_its_heavier_part_would_fall_behind_no_later() -> None:
    """Nearly all work is shared: twice the shared work with 4 / 5 of the time is worse than all of it."""
    fed = FedFragment(1e-3, {"Heavy": 1e-5, "Light": 1e-5})
    fed.run(1_000, 1)
    assert fed.lanes == [["Heavy", "Light"]] and fed.lag("Light") > 300


def test_only_the_policy_that_serves_by_weight_divides_lanes() -> None:
    fed = FedFragment(1e-4, {"Heavy": 1e-4, "Light": 1e-3}, "chain")
    fed.run(1_000, 1)
    assert fed.lanes == [["Heavy", "Light"]]


def test_a_family_stays_together_and_is_as_heavy_as_its_heaviest_member() -> None:
    """V2 to V4 differ in a constant; V0 and V1 run by themselves, as the first queries of a family do."""
    sql = "CREATE STREAM B OVER T KEY k;" + LIGHT
    for at in range(5):
        sql += f"CREATE QUERY V{at} WITH (weight = {max(at, 1)}) AS SELECT k, v FROM R(B) WHERE v > {at};"
    fed = FedFragment(1e-5, {"Light": 1e-3}, sql=sql)
    fed.run(1_000, 1)
    assert fed.lanes == [["Light", "V0", "V1"], ["V2", "V3", "V4"]]


def test_many_light_queries_do_not_displace_a_heavy_one() -> None:
    names = [f"L{at}" for at in range(10)]
    light = (f"CREATE QUERY {name} AS SELECT k, COUNT(*) + {name[1:]} AS n FROM R(S) GROUP BY k;" for name in names)
    fed = FedFragment(1e-4, {"Heavy": 1e-4, **dict.fromkeys(names, 5e-4)}, sql="".join(light) + HEAVY)
    fed.run(500, 1)
    assert fed.lag("Heavy") < 200 < fed.lag("L0")


def test_the_weight_of_a_lane_is_the_greatest_of_its_queries() -> None:
    catalog, _ = apply_all(SOURCE + LIGHT + HEAVY, environment=FakeEnvironment({"t": {0: 0}}))
    (lane,) = start(catalog, 1).lanes.values()
    assert weight_of(lane) == 4.0


#: Queries of `test_epoch` that can leave a lane; families leave it together.
PARTS = (("Since",), ("Every",), ("Hot",), ("Hot0",), ("Hot2", "Hot3", "Hot4"), ("Faulty1", "Faulty0"), ("Counts",))


@given(
    LOGS,
    st.integers(1, 2),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.sets(st.sampled_from(PARTS)), min_size=1, max_size=6),
    st.lists(st.integers(0, 3), max_size=30),
)
def test_results_are_the_same_whenever_queries_leave_their_lanes_and_join_them(
    logs, targets, limits, apart, served
) -> None:
    whole, (world, first) = run_with(logs, 1, [1000], then=0), world_of(logs)
    catalog = apply_all(MORE, first)[0]
    revision, turns = start(catalog, targets), iter(served)
    ids = {planned.name: query for query, planned in revision.plan.queries.items()}
    manifest = revision.manifest
    for number in count():
        leaving = [ids[name] for part in apart[number % len(apart)] for name in part]
        revision = revised(revision.plan, manifest, (), revision, leaving)
        revision = replace(revision, takes={lane: takes(revision, lane, turns) for lane in revision.lanes})
        done = epoch(world, revision, limits[number % len(limits)], 1 + number % 3)
        publish(world, done)
        manifest = done.manifest
        if not done.results and not any(lane.queues for lane in manifest.lanes.values()):
            break
    assert world.written == whole.written
    assert sorted(map(repr, world.dead)) == sorted(map(repr, whole.dead))
