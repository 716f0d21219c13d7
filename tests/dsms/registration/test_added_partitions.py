"""Partitions that are added to a source: their effect on the catalog, plans and positions."""

from __future__ import annotations

import msgspec

from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Query, Source
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.added_partitions import with_partitions, with_reading_suspended
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position, Queue, Segment
from dsms.runtime.lanes.revision import revised
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k; CREATE VIEW V AS SELECT k FROM S;
CREATE QUERY Q AS SELECT k FROM V WHERE k > 1; CREATE QUERY F AS SELECT k FROM S WHERE k > 2"""


def catalog() -> Catalog:
    return apply_all(SQL, environment=FakeEnvironment({"t": {0: 5, 1: 6}}))[0]


def source(of: Catalog) -> Source:
    (found,) = of.sources()
    return found


def grown(before: Catalog) -> Catalog:
    return with_partitions(before, source(before), 4, 17)


def test_held_source_is_not_read() -> None:
    before = catalog()
    waiting = with_reading_suspended(before, source(before))
    assert source(waiting).adding_partitions_since == waiting.version == before.version + 1
    assert plan_fragment(waiting, 1).suspended_sources == {source(before).id}
    after = source(grown(waiting))
    assert (after.partitions, after.added_partitions, after.adding_partitions_since) == (4, {2: 17, 3: 17}, None)
    assert plan_fragment(grown(waiting), 1).suspended_sources == frozenset()


def test_more_partitions_may_join_later() -> None:
    first = grown(catalog())
    assert source(with_partitions(first, source(first), 5, 30)).added_partitions == {2: 17, 3: 17, 4: 30}


def test_plans_keep_fingerprints_and_read_added_partitions() -> None:
    before = catalog()
    first = plan_fragment(before, 1)
    after = plan_fragment(grown(before), 1, first)
    assert [fingerprint(query.node) for query in first.queries.values()] == [
        fingerprint(query.node) for query in after.queries.values()
    ]
    assert {read.partitions for query in after.queries.values() for read in properties.sources(query.node)} == {4}
    again = plan_fragment(msgspec.structs.replace(grown(before), version=99), 1, after)
    assert all(again.queries[query] is planned for query, planned in after.queries.items())


def test_former_version_of_a_query_gets_added_partitions() -> None:
    before = catalog()
    replaced = apply_all("CREATE OR REPLACE QUERY F AS SELECT k FROM S WHERE k > 3", before, Published())[0]
    after = grown(replaced).find("F")
    assert isinstance(after, Query) and after.former is not None
    remembered = [item for item in after.former.objects if isinstance(item, Source)]
    assert [item.partitions for item in remembered] == [4]
    planned = plan_fragment(grown(replaced), 1).queries[after.id]
    assert planned.former is not None
    assert {read.partitions for read in properties.sources(planned.former)} == {4}


class Published(FakeEnvironment):
    """An environment in which all queries have published up to 9."""

    def published(self, query: str) -> int | None:
        return 9


def test_lanes_continue_with_added_partitions() -> None:
    before = catalog()
    first = revised(plan_fragment(before, 1), Manifest(targets=1), ())
    at, upto = {0: Position(8, 12, 12), 1: Position(9, 17, 17)}, {0: Position(7, 11), 1: Position(6, 10)}
    name = source(before).id
    lanes = {
        lane: LaneManifest(
            progress.queries,
            {name: at},
            [{key: [[key]] for key in first.lanes[lane].flow.keys}],
            {1: Queue({name: upto}, [Segment(1, {name: at}, 3, 30)])},
        )
        for lane, progress in first.manifest.lanes.items()
    }
    manifest = Manifest(epoch=1, lanes=lanes, targets=1)
    revision = revised(plan_fragment(grown(before), 1, first.plan), manifest, (), first)
    joined = {2: Position(0, 17), 3: Position(0, 17)}
    assert not revision.rebuilt
    for lane, progress in revision.manifest.lanes.items():
        assert progress.positions == {name: at | joined}
        assert progress.queues[1].done == {name: upto | joined}
        assert progress.queues[1].segments[0].upto == {name: at | joined}
        assert {read.partitions for read in revision.lanes[lane].sources.values()} == {4}


def test_new_lane_reads_added_partitions_from_the_same_instant() -> None:
    after = grown(catalog())
    (progress, *_) = revised(plan_fragment(after, 1), Manifest(targets=1), ()).manifest.lanes.values()
    assert progress.positions == {
        source(after).id: {0: Position(5), 1: Position(6), 2: Position(0, 17), 3: Position(0, 17)}
    }
