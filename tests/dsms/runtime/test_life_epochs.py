"""The life of queries on the executor without services: statements and crashes between any two epochs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.replacement import with_former_dropped, with_halted
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from dsms.statements.ddl.replace_query import halt_with_readers
from dsms.statements.registry import parse
from tests.dsms.runtime.test_epoch import LOGS, world_of
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, start
from tests.support.strategies import examples

MINE = """CREATE STREAMED VIEW V AS SELECT k, v FROM R(S) WHERE v > 1; CREATE QUERY R AS SELECT k, v * 2 AS w FROM V;
CREATE QUERY B AS SELECT v FROM R(S) WHERE v > 0; CREATE QUERY C AS SELECT k, COUNT(*) AS n FROM R(A) GROUP BY k;
CREATE QUERY Hot9 AS SELECT k, v FROM R(S) WHERE v > -9;""" + "".join(
    f"CREATE QUERY N{least} AS SELECT k, COUNT(*) AS n FROM R(A) WHERE v > -{least} GROUP BY k;" for least in range(4)
)
REPLACEMENTS = {
    "V": [
        "SELECT k, v FROM R(S) WHERE v < 2",
        "SELECT k, v + 1 AS v FROM R(S)",
        "SELECT k, MAX(v) AS v FROM R(A) GROUP BY k",
    ],
    "B": ["SELECT v FROM R(A)", "SELECT v FROM R(S)", "SELECT v FROM R(A) WHERE v > 1"],
    "C": ["SELECT k, COUNT(*) AS n FROM R(S) GROUP BY k", "SELECT k, COUNT(v) AS n FROM R(A) WHERE v > 0 GROUP BY k"],
}
NAMES = ("V", "R", "B", "C", "Hot9", "Hot", "Since", "Bag", "Every", "Hot0", "Hot2", "N0", "N1", "N2", "N3")
EVENT = st.one_of(
    st.tuples(st.sampled_from(["PAUSE", "RESUME"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["REPLACE"]), st.sampled_from(["V", "B", "C"]), st.integers(0, 2)),
    st.just(("CRASH",)),
    st.just(("LOST",)),
    st.just(("RETIRE",)),
)
LOG = [
    [("a", 2, 1, None), ("a", 3, 4, None), ("a", 1, 5, None), ("c", 2, 7, None), ("a", 0, 8, None), ("b", 2, 12, None)]
]
EVENTS = st.lists(st.tuples(st.integers(0, 4), EVENT), max_size=6)


class Reached(FakeEnvironment):
    """The environment of a world in which replaced queries have halted."""

    def __init__(self, world: World) -> None:
        super().__init__({"t": {}})
        self._world = world

    def published(self, query: str) -> int | None:
        at = self._world.published.frontiers.get(query, -(2**62))
        return None if at == -(2**62) else at


@dataclass
class Life:
    """A world with its catalog, and the ids that each query name has had."""

    world: World
    catalog: Catalog
    targets: int
    history: list[Manifest] = field(default_factory=list)
    ids: dict[str, list[str]] = field(default_factory=dict)
    since: dict[str, int | None] = field(default_factory=dict)
    #: The queries that have left a family.
    left: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.revision = start(self.catalog, self.targets)
        self.history.append(self.revision.manifest)
        self._note()

    def _note(self) -> None:
        for query in self.catalog.running():
            known = self.ids.setdefault(query.name, [])
            if query.id not in known:
                known.append(query.id)
                self.since[query.id] = query.since

    def turn(self, limit: int, tasks: int) -> bool:
        """Runs one epoch; returns whether there was anything to do."""
        plan = plan_fragment(self.catalog, self.targets, self.revision.plan)
        self.revision = revised(plan, stored := self.history[-1], (), self.revision)
        self._check_nothing_begins_anew(stored)
        done = epoch(self.world, self.revision, limit, tasks)
        publish(self.world, done, plan)
        self.history.append(done.manifest)
        assert not any(plan.queries[query].stopped for query in done.results), "who is paused is silent"
        return bool(done.results)

    def _check_nothing_begins_anew(self, stored: Manifest) -> None:
        """A query keeps its position, independently of others; only a query that leaves a family starts again."""
        before, after = places(stored), places(self.revision.manifest)
        for query in before.keys() & after.keys() - self.left:
            assert after[query] == {place: before[query].get(place, at) for place, at in after[query].items()}, query

    def change(self, event: tuple) -> None:
        grouped = {query.id for query in self.catalog.running() if query.grouped}
        if event[0] == "CRASH":
            self.history = self.history[: 1 + len(self.history) // 2]
        elif event[0] == "LOST":
            self.history = [Manifest(targets=self.targets)]
        elif event[0] == "RETIRE":
            self.catalog = self.catalog.with_changed(*with_former_dropped(self.catalog, self.world.published.frontiers))
        elif event[0] == "REPLACE":
            self._replace(event[1], REPLACEMENTS[event[1]][event[2] % len(REPLACEMENTS[event[1]])])
        else:
            self.catalog, _ = apply_all(f"{event[0]} {event[1]}", self.catalog, Reached(self.world))
        self.left |= grouped - {query.id for query in self.catalog.running() if query.grouped}
        self._note()

    def _replace(self, name: str, select: str) -> None:
        sql = f"CREATE OR REPLACE {'VIEW' if name == 'V' else 'QUERY'} {name} AS {select}"
        after, _ = apply_all(sql, self.catalog, Reached(self.world))
        if after.version == self.catalog.version:
            return
        (statement,) = parse(sql)
        self.catalog = with_halted(self.catalog, halt_with_readers(statement, self.catalog).queries)
        self.turn(2, 1)
        self.catalog, _ = apply_all(sql, self.catalog, Reached(self.world))

    def log(self, name: str) -> list[tuple]:
        """All records of a result: those of each id that its name has had, in order, partition by partition."""
        parts = sorted(
            {log for log in self.world.results for query in self.ids[name] if log.split("/")[0] == query},
            key=lambda log: (int(log.split("/")[0][1:]), log),
        )
        return [row for part in parts for row in self.world.results[part]]


def places(manifest: Manifest) -> dict[str, dict]:
    return {query: lane.places for lane in manifest.lanes.values() for query in lane.queries}


def live(logs, targets, limits, events, more: str = MINE) -> Life:
    world, catalog = world_of(logs)
    catalog, _ = apply_all(more, catalog, Reached(world))
    whole = world.logs["t"]
    world.logs["t"] = {p: log[: len(log) - len(log) // 3] for p, log in whole.items()}
    life = Life(world, catalog, targets)
    number = 0
    for gap, event in events:
        for _ in range(gap):
            life.turn(limits[number % len(limits)], 1 + number % 3)
            number += 1
        life.change(event)
    life.catalog, _ = apply_all("; ".join(f"RESUME {name}" for name in NAMES), life.catalog, Reached(world))
    for logs_now in (
        world.logs["t"],
        whole,
    ):  # the last records come when everything is read and lanes have merged
        world.logs["t"] = logs_now
        while life.turn(limits[number % len(limits)], 1 + number % 3):
            number += 1
    return life


def ts(row: tuple) -> int:
    return int(dict(row[2])["dsms-ts"])


def op(row: tuple) -> str:
    return dict(row[2]).get("dsms-op", b"+").decode()


def relation(rows: list[tuple], at: int) -> Counter:
    """The relation according to the records up to an instant."""
    bag: Counter = Counter()
    by_key: dict = {}
    for row in rows:
        if ts(row) > at:
            continue
        if row[0] is not None:
            by_key[row[0]] = row[1]
        else:
            bag[row[1]] += 1 if op(row) == "+" else -1
    return +bag + Counter(value for value in by_key.values() if value is not None)


@settings(max_examples=examples(12))
@given(LOGS, st.integers(1, 2), st.lists(st.integers(1, 9), min_size=1, max_size=3), EVENTS)
@example(LOG, 1, [1], [(1, ("PAUSE", "Hot9")), (1, ("RESUME", "Hot9"))])
@example(LOG, 1, [1], [(2, ("PAUSE", "N3")), (2, ("RESUME", "N3"))])
@example(LOG, 1, [2], [(1, ("REPLACE", "V", 2)), (1, ("CRASH",)), (0, ("RETIRE",))])
@example(LOG, 1, [1], [(4, ("REPLACE", "V", 1)), (4, ("RETIRE",)), (1, ("REPLACE", "B", 1)), (1, ("PAUSE", "Hot0"))])
def test_statements_and_crashes_change_only_what_they_name(logs, targets, limits, events) -> None:
    life = live(logs, targets, limits, events)
    whole = live(logs, 1, [1000], [])
    ends = range(-2, 14)
    for name in NAMES:
        if len(life.ids[name]) == 1:
            assert life.log(name) == whole.log(name), name
        else:
            assert_replaced(life, whole, name, ends, logs)


def assert_replaced(life: Life, whole: Life, name: str, ends: range, logs) -> None:
    """Asserts that the log only grows: each part ends where the next begins, and the first part is unchanged. From the
    last replacement on, the relation is that of a query with the new definition from the beginning."""
    select = life.catalog.find(name).select
    view = f"CREATE STREAMED VIEW V AS {life.catalog.find('V').select};"
    fresh = live(logs, 1, [1000], [], f"{view} CREATE STREAMED VIEW Fresh AS {select};" + PLACES)
    ids, rows = life.ids[name], life.log(name)
    since, first = life.since[ids[-1]], life.since[ids[1]]
    for query, after in zip(ids, [*(life.since[other] for other in ids[1:]), None], strict=True):
        instants = [
            ts(row) for log, listed in life.world.results.items() if log.split("/")[0] == query for row in listed
        ]
        assert all(
            (life.since[query] is None or at >= life.since[query]) and (after is None or at < after) for at in instants
        )
    before = [row for row in whole.log(name) if first is not None and ts(row) < first]
    assert [row for row in rows if first is not None and ts(row) < first] == before
    final = min(reached(whole, name), reached(life, name))
    for at in ends:
        if (since is None or at >= since) and at < final:
            assert relation(rows, at) == relation(fresh.log("Fresh"), at), (name, at)


def reached(life: Life, name: str) -> int:
    return life.world.published.frontiers.get(life.ids[name][-1], -(2**62))


PLACES = "; ".join(
    f"CREATE QUERY {name} AS SELECT k FROM R(S)" for name in ("R", "B", "C", "Hot9", "N0", "N1", "N2", "N3")
)
