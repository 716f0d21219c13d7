"""Sources whose first records were removed: where a new query begins, and which statements are refused."""

from __future__ import annotations

import msgspec
import pytest

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Query
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from operators.core.errors import UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """
    REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k; CREATE STREAM A OVER T KEY NULL;
    CREATE STREAMED VIEW Whole AS SELECT k, SUM(v) AS n FROM A GROUP BY k;
"""
REST = "CREATE STREAMED VIEW Rest AS SELECT k, SUM(v) AS n FROM A GROUP BY k;"


def environment(**earliest: dict[int, int]) -> FakeEnvironment:
    return FakeEnvironment({"t": {0: 2, 1: 0}, "u": {0: 0}}, earliest_known=earliest)


def after(sql: str, catalog: Catalog | None = None, **earliest: dict[int, int]) -> Catalog:
    return apply_all(sql, catalog, environment(**earliest))[0]


def query(catalog: Catalog, name: str) -> Query:
    found = catalog.find(name)
    assert isinstance(found, Query)
    return found


def test_a_new_query_begins_at_the_records_that_are_left_and_the_catalog_says_where() -> None:
    whole = after(SQL)
    assert query(whole, "Whole").first_offsets == {}
    catalog = after(REST, whole, t={0: 9, 1: 0})
    source = properties.sources(plan_fragment(catalog, 1).queries[query(catalog, "Rest").id].node)[0]
    assert query(catalog, "Rest").first_offsets == {source.id: {0: 9, 1: 0}}
    assert msgspec.json.decode(msgspec.json.encode(catalog), type=Catalog) == catalog


def test_retention_before_the_registration_of_the_source_takes_nothing_from_a_query() -> None:
    assert query(after(SQL + REST, t={0: 2, 1: 0}), "Rest").first_offsets == {}


def test_lanes_begin_at_the_first_offsets_and_share_no_state_with_those_that_read_all() -> None:
    catalog = after(REST, after(SQL), t={0: 9, 1: 4})
    revision = revised(plan_fragment(catalog, 1), Manifest(targets=1), ())
    begun = {lane: [at.offset for at in progress.places.values()] for lane, progress in revision.manifest.lanes.items()}
    whole, rest = query(catalog, "Whole").id, query(catalog, "Rest").id
    assert begun == {whole: [2, 0], rest: [9, 4]}
    stateful = [
        {key for key, vertex in zip(lane.flow.keys, lane.flow.vertices, strict=True) if vertex.operator is not None}
        for lane in revision.lanes.values()
    ]
    assert not stateful[0] & stateful[1]


def test_queries_that_begin_at_the_same_offsets_share() -> None:
    two = REST + REST.replace("Rest", "Rest2")
    revision = revised(plan_fragment(after(two, after(SQL), t={0: 9, 1: 4}), 1), Manifest(targets=1), ())
    assert sorted(len(lane.outputs) for lane in revision.lanes.values()) == [1, 2]


def test_the_notice_says_where_it_begins() -> None:
    _, (result,) = apply_all(REST, after(SQL), environment(t={0: 9, 1: 0}))
    assert (
        'earlier records of topic "t" were deleted: the topic is read from offset 9 of partition 0, '
        "offset 0 of partition 1 on" in result.notices
    )


@pytest.mark.parametrize(
    ("sql", "doing"),
    [
        ("CREATE STREAMED VIEW Over AS SELECT k FROM Whole WHERE n > 3", "a query over it"),
        (
            "CREATE STREAMED VIEW Both AS SELECT A.k FROM A JOIN Whole ON A.k = Whole.k",
            "a query over it",
        ),
        (
            "CREATE OR REPLACE STREAMED VIEW Whole AS SELECT k, SUM(v) AS n FROM A WHERE v > 0 GROUP BY k",
            'replacing "Whole"',
        ),
    ],
)
def test_statement_is_refused_if_its_start_records_were_deleted(sql: str, doing: str) -> None:
    with pytest.raises(UserError, match=f'offsets 2 to 8 of topic "t" partition 0 were deleted, but {doing}'):
        after(sql, after(SQL), t={0: 9, 1: 0})


def test_a_query_over_a_view_that_begins_late_begins_there_as_well() -> None:
    catalog = after(REST, after(SQL), t={0: 9, 1: 0})
    over = after("CREATE STREAMED VIEW Over AS SELECT k FROM Rest WHERE n > 3", catalog, t={0: 9, 1: 0})
    node = plan_fragment(over, 1).queries[query(over, "Over").id].node
    assert [scan.first for scan in properties.scans(node)] == [((0, 9), (1, 0))]
    with pytest.raises(UserError, match="offsets 9 to 10 of topic"):
        after("CREATE STREAMED VIEW Over AS SELECT k FROM Rest WHERE n > 3", catalog, t={0: 11, 1: 0})


def test_the_home_of_a_source_reads_it_for_dead_letters_from_where_its_readers_begin() -> None:
    catalog = after("DROP VIEW Whole;" + REST, after(SQL), t={0: 9, 1: 0})
    moved = catalog.with_changed(msgspec.structs.replace(query(catalog, "Rest"), fragment="1"))
    (alone,) = plan_fragment(moved, 1, fragment="0").queries.values()
    assert [scan.first for scan in properties.scans(alone.node)] == [((0, 9), (1, 0))]


def test_plans_that_read_all_records_keep_their_fingerprints() -> None:
    """The field was added in version 0.2: stored names of families and of view matching were computed without it."""
    source = properties.sources(plan_fragment(after(SQL), 1).queries[query(after(SQL), "Whole").id].node)[0]
    scan = logical.StreamScan(source, "A", ())
    assert fingerprint(scan) != fingerprint(logical.StreamScan(source, "A", (), first=((0, 9),)))


def test_after_an_alter_a_query_is_replaced_from_the_same_first_records_on() -> None:
    catalog = after(REST, after(SQL), t={0: 9, 1: 0})
    catalog = after("ALTER SOURCE T ADD COLUMN w INT", catalog, t={0: 9, 1: 0})
    replaced = after(f"CREATE OR REPLACE {REST[7:-1]} HAVING SUM(v) > 1", catalog, t={0: 9, 1: 0})
    (read,) = properties.sources(plan_fragment(replaced, 1).queries[query(replaced, "Rest").id].node)
    first = query(catalog, "Rest").first_offsets
    assert query(replaced, "Rest").first_offsets == {**first, read.id: {0: 9, 1: 0}} and read.id not in first
