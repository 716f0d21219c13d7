"""SKIP RECORD: which record of a source is skipped, as a function of the catalog and the positions of queries."""

from __future__ import annotations

import msgspec
import pytest

from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Source
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.statements.ddl.skip_record import (
    SkipRecord,
    check_unread,
    with_reading_resumed,
    with_reading_suspended,
    with_record_skipped,
)
from dsms.statements.registry import parse
from operators.core.errors import SqlError, UserError
from tests.support.fake_environment import apply_all

SQL = """REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE STREAMED VIEW v AS SELECT k FROM S; CREATE OR REPLACE STREAMED VIEW v AS SELECT k FROM S WHERE k > 1"""


@pytest.fixture
def catalog() -> Catalog:
    return apply_all(SQL)[0]


def parsed(sql: str) -> SkipRecord:
    (statement,) = parse(sql)
    assert isinstance(statement, SkipRecord)
    return statement


def source_in(catalog: Catalog) -> Source:
    source = catalog.find("T")
    assert isinstance(source, Source)
    return source


def test_a_skipped_record_is_in_the_catalog_and_its_source_is_held_until_then(catalog: Catalog) -> None:
    statement = parsed("SKIP RECORD OF t PARTITION 1 OFFSET 17")
    held = with_reading_suspended(statement, catalog)
    source = source_in(held)
    assert plan_fragment(held, 1).suspended_sources == {source.id} and source.skipped == {}
    after = with_record_skipped(statement, source, held)
    plan = plan_fragment(after, 1)
    assert (plan.suspended_sources, plan.skipped) == (frozenset(), {(source.id, 1): (17,)})
    again = with_reading_suspended(parsed("SKIP RECORD OF t PARTITION 1 OFFSET 3"), after)
    assert source_in(
        with_record_skipped(parsed("SKIP RECORD OF t PARTITION 1 OFFSET 3"), source_in(again), again)
    ).skipped == {1: (3, 17)}
    assert plan_fragment(with_reading_resumed(source, held), 1).suspended_sources == frozenset()
    assert fingerprint(source_in(after)) == fingerprint(source_in(catalog)), "state of queries keeps its name"
    assert msgspec.json.decode(msgspec.json.encode(after), type=Catalog) == after


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SKIP RECORD OF t PARTITION 2 OFFSET 0", 'source "T" has 2 partitions'),
        ("SKIP RECORD OF v PARTITION 0 OFFSET 0", '"v" is a view, not a source'),
        ("SKIP RECORD OF u PARTITION 0 OFFSET 0", '"u" not found'),
    ],
)
def test_skipping_an_invalid_record_is_refused(catalog: Catalog, sql: str, message: str) -> None:
    with pytest.raises((SqlError, UserError), match=message):
        with_reading_suspended(parsed(sql), catalog)


@pytest.mark.parametrize("sql", ["SKIP RECORD OF t PARTITION x OFFSET 0", "SKIP RECORD OF t PARTITION 0 OFFSET -1"])
def test_partition_and_offset_must_be_numbers(sql: str) -> None:
    with pytest.raises(SqlError, match="expected the"):
        parse(sql)


def test_records_are_skipped_one_at_a_time_and_only_once(catalog: Catalog) -> None:
    statement = parsed("SKIP RECORD OF t PARTITION 0 OFFSET 7")
    held = with_reading_suspended(statement, catalog)
    with pytest.raises(UserError, match="is being changed"):
        with_reading_suspended(statement, held)
    done = with_record_skipped(statement, source_in(held), held)
    with pytest.raises(UserError, match="record t/0/7 is already skipped"):
        with_reading_suspended(statement, done)
    with pytest.raises(UserError, match="was changed by another statement in the meantime"):
        with_record_skipped(statement, source_in(held), done)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([], "no running query reads source"),
        ([7, 8], "record t/0/7 has already been read; queries continue at offset 8"),
        ([6], "record t/0/7 is not the next record of a query; the next offset is 6"),
        ([7, 3], None),
    ],
)
def test_only_a_record_that_no_query_has_read_is_skipped(
    catalog: Catalog, positions: list[int], message: str | None
) -> None:
    statement, source = parsed("SKIP RECORD OF t PARTITION 0 OFFSET 7"), source_in(catalog)
    if message is None:
        check_unread(statement, source, positions)
    else:
        with pytest.raises(UserError, match=message):
            check_unread(statement, source, positions)


def test_a_record_is_skipped_for_all_versions_of_its_source() -> None:
    catalog = apply_all(f"{SQL}; ALTER SOURCE T ADD COLUMN w INT; CREATE VIEW x AS SELECT * FROM S")[0]
    versions = {version.id for version in source_in(catalog).versions}
    assert len(versions) == 2
    held = with_reading_suspended(parsed("SKIP RECORD OF T PARTITION 1 OFFSET 17"), catalog)
    assert plan_fragment(held, 1).suspended_sources == versions
    after = with_record_skipped(parsed("SKIP RECORD OF T PARTITION 1 OFFSET 17"), source_in(held), held)
    plan = plan_fragment(after, 1)
    assert (plan.suspended_sources, plan.skipped) == (frozenset(), {(id, 1): (17,) for id in versions})
    assert after.version == held.version + 1
