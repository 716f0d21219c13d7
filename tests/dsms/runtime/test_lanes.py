"""Which queries run together: where new queries begin, where they join others, and how a failed query leaves."""

from __future__ import annotations

import msgspec
import pytest

from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.runtime.epoch.epoch import late_replacements, outdated_versions, with_replaced_queries
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position, Queue, Segment, read_manifest
from dsms.runtime.lanes.revision import Revision, revised, running_lanes, without_failed
from operators.core.errors import UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = (
    "REGISTER SOURCE T (k INT) FROM t; REGISTER SOURCE U (k INT) FROM u; CREATE STREAM S OVER T KEY k;"
    "CREATE STREAM R OVER U KEY k; CREATE STREAMED VIEW V AS SELECT k FROM S;"
    "CREATE STREAMED VIEW W AS SELECT k FROM S WHERE k > 1;"
)
OTHER = "CREATE STREAMED VIEW X AS SELECT k FROM R;"
BOTH = "CREATE STREAMED VIEW Y AS SELECT S.k FROM S JOIN R ON S.k = R.k;"


def plan(sql: str = SQL) -> FragmentPlan:
    return plan_fragment(apply_all(sql, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))[0], 1)


def _without_u(sql: str) -> str:
    """The statements about source T."""
    about_u = "REGISTER SOURCE U (k INT) FROM u; ", "CREATE STREAM R OVER U KEY k; "
    for statement in about_u:
        sql = sql.replace(statement, "")
    return sql


def ids(planned: FragmentPlan, *names: str) -> set[str]:
    return {query.id for query in planned.queries.values() if query.name in names}


def lanes(revision: Revision) -> list[set[str]]:
    names = {query.id: query.name for query in revision.plan.queries.values()}
    return [{names[query] for query in lane.queries} for lane in revision.manifest.lanes.values()]


def read(revision: Revision, offset: int) -> Manifest:
    """The manifest after all lanes have read all sources up to an offset, with a run for each vertex."""
    moved = {
        lane_id: msgspec.structs.replace(
            lane,
            positions={source: {0: Position(offset, offset, offset)} for source in lane.positions},
            runs=[{key: [[f"{lane_id}/{key}"]] for key in revision.lanes[lane_id].flow.keys}],
        )
        for lane_id, lane in revision.manifest.lanes.items()
    }
    return msgspec.structs.replace(revision.manifest, epoch=revision.manifest.epoch + 1, lanes=moved)


def waiting(revision: Revision, offset: int) -> Manifest:
    """The manifest after all lanes have read up to an offset, before a stage has processed the elements."""
    moved = read(revision, offset)
    lanes = {
        lane_id: msgspec.structs.replace(
            lane,
            runs=[{queue: [[f"{lane_id}/{queue}"]] for queue in revision.lanes[lane_id].flow.queues}],
            queues={1: Queue(revision.manifest.lanes[lane_id].positions, [Segment(1, lane.positions, 5, 50)])},
        )
        for lane_id, lane in moved.lanes.items()
    }
    return msgspec.structs.replace(moved, lanes=lanes)


def test_queued_elements_are_kept_for_the_remaining_queries() -> None:
    first = revised(plan(SQL + OTHER), Manifest(targets=1), ())
    manifest = waiting(first, 7)
    second = revised(plan(SQL), manifest, (), first)
    (before,), (after,) = manifest.lanes.values(), second.manifest.lanes.values()
    (source,) = after.positions
    queues = second.lanes[next(iter(second.lanes))].flow.queues
    assert 0 < len(queues) < len(first.lanes[next(iter(first.lanes))].flow.queues)
    assert after.runs == [{queue: before.runs[0][queue] for queue in queues}]
    kept = Segment(1, {source: {0: Position(7, 7, 7)}}, 5, 50)
    assert after.queues == {1: Queue({source: {0: Position(0)}}, [kept])}
    assert after.names() < before.names()


def test_lanes_with_queued_elements_do_not_merge() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    both = revised(plan(SQL + BOTH), read(first, 7), (), first)
    caught_up = read(both, 7)
    assert len(revised(both.plan, caught_up, (), both).manifest.lanes) == 1
    queued = waiting(both, 7).lanes
    lanes = {
        lane: queued[lane] if at else lane_manifest for at, (lane, lane_manifest) in enumerate(caught_up.lanes.items())
    }
    assert len(revised(both.plan, msgspec.structs.replace(caught_up, lanes=lanes), (), both).manifest.lanes) == 2


def test_queries_that_begin_together_run_together() -> None:
    assert lanes(revised(plan(), Manifest(targets=1), ())) == [{"V", "W"}]


def test_queries_over_other_sources_run_together_too() -> None:
    assert lanes(revised(plan(SQL + OTHER + BOTH), Manifest(targets=1), ())) == [{"V", "W", "X", "Y"}]


def test_a_new_query_begins_by_itself_and_joins_where_it_has_caught_up() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    second = revised(plan(SQL + BOTH), read(first, 7), (), first)
    assert lanes(second) == [{"V", "W"}, {"Y"}]
    (begun,) = (lane for lane in second.manifest.lanes.values() if len(lane.queries) == 1)
    assert {at for offsets in begun.positions.values() for at in offsets.values()} == {Position(0)}
    third = revised(second.plan, read(second, 9), (), second)
    assert lanes(third) == [{"V", "W", "Y"}]
    (joined,) = third.manifest.lanes.values()
    (lane,) = third.lanes.values()
    assert joined.runs[0].keys() == set(lane.flow.keys), "all state of both is there, once"


def test_query_over_other_sources_joins_at_once_without_a_restart() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    manifest = read(first, 7)
    second = revised(plan(SQL + OTHER), manifest, (), first)
    assert lanes(second) == [{"V", "W", "X"}]
    assert revised(second.plan, second.manifest, (), second).manifest == second.manifest
    (before,), (after,) = manifest.lanes.values(), second.manifest.lanes.values()
    assert before.positions.items() <= after.positions.items()


def test_a_dropped_query_takes_its_state_along() -> None:
    both = revised(plan(SQL + OTHER), Manifest(targets=1), ())
    left = revised(plan(), read(both, 5), (), both)
    (kept,) = left.manifest.lanes.values()
    (lane,) = left.lanes.values()
    assert kept.runs[0].keys() == set(lane.flow.keys)
    assert len(kept.positions) == 1


def test_a_query_that_is_dropped_and_created_again_over_a_new_source_finds_no_state() -> None:
    """The executor sees both changes at once. The new source has the number of the old one, so the keys of the vertices
    are equal, and an unrelated query has kept the lane."""
    environment = FakeEnvironment({"t": {0: 0}, "u": {0: 0}})
    before, _ = apply_all(SQL + OTHER, environment=environment)
    first = revised(plan_fragment(before, 1), Manifest(targets=1), ())
    assert lanes(first) == [{"V", "W", "X"}]
    after, _ = apply_all(f"DROP SOURCE T CASCADE; {_without_u(SQL)}", before, environment)
    second = revised(plan_fragment(after, 1), read(first, 7), (), first)
    assert lanes(second) == [{"V", "W", "X"}]
    assert_state_of_other_only(second)


def assert_state_of_other_only(revision: Revision) -> None:
    """No vertex has state but those over U, which the query OTHER reads."""
    (lane,), (progress,) = revision.lanes.values(), revision.manifest.lanes.values()
    kept = {key for key, at in zip(lane.flow.keys, lane.flow.vertices, strict=True) if at.leaves == frozenset({1})}
    assert {key for names in progress.runs for key in names} <= kept


def test_queries_that_start_again_beside_an_unrelated_one_find_no_state() -> None:
    first = revised(plan(SQL + OTHER), Manifest(targets=1), ())
    ((lane_id, stored),) = read(first, 7).lanes.items()
    (lane,) = first.lanes.values()
    lost = {lane.flow.keys[output.vertex] for output in lane.outputs if output.name in "VW"}
    runs = [{key: run for key, run in stored.runs[0].items() if key not in lost}]
    poorer = Manifest(lanes={lane_id: LaneManifest(stored.queries, stored.positions, runs)}, targets=1)
    second = revised(first.plan, poorer, (), first)
    assert second.rebuilt == ids(first.plan, "V", "W")
    third = revised(first.plan, second.manifest, (), second)
    assert lanes(third) == [{"V", "W", "X"}]
    assert_state_of_other_only(third)


def test_failed_query_stays_alone_at_its_position() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    (before,) = first.manifest.lanes.values()
    (after,) = read(first, 7).lanes.values()
    (failed,) = ids(first.plan, "W")
    parts = without_failed(before, after, {failed})
    assert [(set(part.queries), part.positions == after.positions) for part in parts] == [
        (ids(first.plan, "V"), True),
        ({failed}, False),
    ]
    manifest = msgspec.structs.replace(first.manifest, lanes={str(at): part for at, part in enumerate(parts)})
    assert lanes(revised(first.plan, manifest, {failed}, first)) == [{"V"}, {"W"}]


@pytest.mark.parametrize("lost", ["state", "source"])
def test_lane_with_incomplete_state_restarts(lost: str) -> None:
    first = revised(plan(), Manifest(targets=1), ())
    ((lane_id, lane),) = read(first, 7).lanes.items()
    positions, runs = {} if lost == "source" else lane.positions, [{}] if lost == "state" else lane.runs
    poorer = LaneManifest(lane.queries, positions, runs)
    revision = revised(first.plan, Manifest(lanes={lane_id: poorer}, targets=1), (), first)
    assert revision.manifest.lanes == first.manifest.lanes


def test_only_the_query_with_lost_state_restarts() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    ((lane_id, stored),) = read(first, 7).lanes.items()
    (lane,) = first.lanes.values()
    of_w = next(lane.flow.keys[output.vertex] for output in lane.outputs if output.name == "W")
    poorer = LaneManifest(
        stored.queries, stored.positions, [{key: run for key, run in stored.runs[0].items() if key != of_w}]
    )
    revision = revised(first.plan, Manifest(lanes={lane_id: poorer}, targets=1), (), first)
    at = {
        queries: lane_manifest.places
        for lane_manifest in revision.manifest.lanes.values()
        for queries in lane_manifest.queries
    }
    (stays,), (begins,) = ids(first.plan, "V"), ids(first.plan, "W")
    assert (first.rebuilt, revision.rebuilt) == (frozenset(), {begins})
    assert at[stays] == stored.places
    assert set(at[begins].values()) == {Position(0)}


def test_paused_query_keeps_its_position_and_state() -> None:
    first = revised(plan(), Manifest(targets=1), ())
    manifest = read(first, 7)
    paused = plan(SQL + "PAUSE W;")
    second = revised(paused, manifest, (), first)
    assert lanes(second) == [{"V"}, {"W"}]
    assert [set(lane_manifest.queries) for lane_manifest in running_lanes(second, ()).values()] == [ids(paused, "V")]
    third = revised(paused, read(second, 9), (), second)
    third_manifest = msgspec.structs.replace(third.manifest, lanes={**third.manifest.lanes, **still(second)})
    fourth = revised(plan(), third_manifest, (), third)
    at = {
        query: lane_manifest.places
        for lane_manifest in fourth.manifest.lanes.values()
        for query in lane_manifest.queries
    }
    (goes,), (resumed,) = ids(paused, "V"), ids(paused, "W")
    assert {position.offset for position in at[goes].values()} == {9}
    assert {position.offset for position in at[resumed].values()} == {7}
    assert lanes(revised(fourth.plan, read(fourth, 11), (), fourth)) == [{"V", "W"}]


def still(revision: Revision) -> dict[str, LaneManifest]:
    return {
        lane: lane_manifest
        for lane, lane_manifest in revision.manifest.lanes.items()
        if lane not in running_lanes(revision, ())
    }


def test_a_replacement_that_an_executor_knew_nothing_of_fails_and_says_so() -> None:
    before = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))[0]
    (old,) = (query.id for query in before.queries() if query.name == "W")

    class Published7(FakeEnvironment):
        def published(self, query: str) -> int | None:
            return 7 if query == old else None

    after, _ = apply_all("CREATE OR REPLACE VIEW W AS SELECT k FROM S WHERE k > 2", before, Published7())
    planned = plan_fragment(after, 1)
    (new,) = ids(planned, "W")
    assert late_replacements(Published({old: 7}, {}), planned) == {}
    assert list(late_replacements(Published({old: 8}, {}), planned)) == [new]
    assert with_replaced_queries(Published({old: 7}, {}), planned).upto(new) == 7


def test_a_version_fails_if_a_later_one_has_published_its_result() -> None:
    planned = plan_fragment(apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))[0], 1)
    (old,) = ids(planned, "W")
    assert outdated_versions(Published({}, {}), planned) == {}
    (why,) = outdated_versions(Published({}, {}, overtaken={old: "o99"}), planned).values()
    assert why.startswith("the later version o99 has published its result: the executor started with an outdated copy")


def test_a_version_that_had_published_nothing_and_publishes_after_its_replacement_fails_the_query() -> None:
    """An executor that had not reported since Redis lost its content published a first epoch after the replacement."""
    environment = FakeEnvironment({"t": {0: 0}, "u": {0: 0}})
    catalog, earlier = apply_all(SQL, environment=environment)[0], list[str]()
    for bound in (2, 3):
        earlier += [query.id for query in catalog.queries() if query.name == "W"]
        catalog, _ = apply_all(f"CREATE OR REPLACE VIEW W AS SELECT k FROM S WHERE k > {bound}", catalog, environment)
    planned = plan_fragment(catalog, 1)
    (new,) = ids(planned, "W")
    assert late_replacements(Published({}, {}), planned) == {}
    for late in earlier:
        (why,) = late_replacements(Published({late: 8}, {}), planned).values()
        assert why.startswith(
            "the query that it replaced before it had published anything has published up to instant 8"
        )

        class PublishedAfterAll(FakeEnvironment):
            def published(self, query: str, late: str = late) -> int | None:
                return 8 if query == late else None

        again = "CREATE OR REPLACE VIEW W AS SELECT k FROM S WHERE k > 4"
        with pytest.raises(UserError, match="an earlier version has published results after it was replaced") as error:
            apply_all(again, catalog, PublishedAfterAll())
        assert error.value.hint == "DROP VIEW W and create it again"
    assert late_replacements(Published({new: 8}, {}), planned) == {}


def test_no_flipped_bit_gives_another_manifest() -> None:
    manifest = read(revised(plan(), Manifest(targets=1), ()), 80)
    body = manifest.encode()
    assert read_manifest(body) == manifest
    for at in range(8 * len(body)):
        changed = bytearray(body)
        changed[at // 8] ^= 1 << at % 8
        assert read_manifest(bytes(changed)) in (None, manifest)


def test_a_manifest_of_a_version_without_check_sums_is_read() -> None:
    manifest = Manifest(epoch=3, targets=1)
    assert read_manifest(msgspec.json.encode(manifest)) == manifest
