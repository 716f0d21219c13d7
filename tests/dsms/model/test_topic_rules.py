"""Which topics statements may name, and how long names may be."""

from __future__ import annotations

import msgspec
import pytest

from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.model.principal import ANYBODY, AccessRules, Forbidden, Principal
from dsms.model.topic_rules import TopicRules, check_published
from operators.core.errors import UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

EVERYTHING = ANYBODY.principal.may_read
BASE = """REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE VIEW hot AS SELECT k, v FROM R(S); CREATE TABLE rooms (k INT PRIMARY KEY)"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return apply_all(BASE)[0]


def refused(sql: str, catalog: Catalog) -> str:
    with pytest.raises(UserError) as raised:
        apply_all(sql, catalog, FakeEnvironment({"t": {0: 0}}))
    return str(raised.value)


RESERVED = [
    "_dsms.local.progress", "_dsms.other.catalog", "__transaction_state", "__consumer_offsets", "dsms.T.dead-letters",
]  # fmt: skip


@pytest.mark.parametrize("topic", [*RESERVED, "dsms.hot", "dsms.rooms"])
@pytest.mark.parametrize(
    "statement",
    [
        'REGISTER SOURCE n (a INT) FROM "{}"',
        'REGISTER SOURCE n (a INT) FROM "{}" PARTITIONS 1',
        "CREATE STREAM n (a INT) SOURCE '{}'",
        "CREATE QUERY n WITH (topic = '{}') AS SELECT k FROM R(S)",
        "CREATE VIEW n WITH (topic = '{}') AS SELECT k FROM R(S)",
        "CREATE OR REPLACE VIEW n WITH (topic = '{}') AS SELECT k FROM R(S)",
    ],
)
def test_reserved_topics_cannot_be_sources_or_results(topic: str, statement: str, catalog: Catalog) -> None:
    said = refused(statement.format(topic), catalog)
    assert f'topic "{topic}"' in said and ("is reserved" in said or "already belongs to" in said)


def test_names_that_would_make_a_reserved_topic_are_refused(catalog: Catalog) -> None:
    inside = apply_all("CREATE SCHEMA t", catalog)[0]
    assert "holds dead letters" in refused('CREATE VIEW t."dead-letters" AS SELECT k FROM R(S)', inside)
    assert "holds dead letters" in refused('CREATE TABLE t."dead-letters" (k INT PRIMARY KEY)', inside)
    assert 'schema "t" not found' in refused('CREATE VIEW "T.dead-letters" AS SELECT k FROM R(S)', catalog)


@pytest.mark.parametrize("topic", ["rooms/1", "a b", "é", ".", "..", "x" * 250, "a\nb", ""])
def test_topics_that_kafka_would_refuse_are_refused_first(topic: str, catalog: Catalog) -> None:
    assert "is not a valid topic name" in refused(
        f"CREATE QUERY n WITH (topic = '{topic}') AS SELECT k FROM R(S)", catalog
    )


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE VIEW "{}" AS SELECT k FROM R(S)',
        'REGISTER SOURCE "{}" (a INT) FROM t',
        'CREATE STREAM "{}" OVER T KEY k',
        'CREATE TABLE "{}" (k INT PRIMARY KEY)',
        'CREATE VIEW "{}" AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0',
    ],
)
def test_a_name_has_at_most_200_characters(statement: str, catalog: Catalog) -> None:
    assert "a name has at most 200 characters" in refused(statement.format("v" * 300), catalog)


def test_names_beyond_those_of_topics_are_refused_where_they_become_topics(catalog: Catalog) -> None:
    assert "is not a valid topic name" in refused("CREATE VIEW räume AS SELECT k FROM R(S)", catalog)
    assert "is not a valid topic name" in refused("REGISTER SOURCE räume (a INT) FROM t", catalog)


def test_an_administrator_opens_topics_to_be_read(catalog: Catalog) -> None:
    opened = TopicRules(("_dsms.main.*", "dsms.hot"))
    for topic in ("_dsms.main.catalog", "dsms.hot"):
        opened.check_source(topic, catalog, EVERYTHING)
    with pytest.raises(UserError, match="is reserved"):
        opened.check_source("_dsms.other.catalog", catalog, EVERYTHING)


@pytest.mark.parametrize("subject", ["_dsms.local.progress-value", "dsms.hot-value", "dsms.hot-key", "__x", "x" * 300])
def test_subjects_of_system_topics_are_refused(subject: str, catalog: Catalog) -> None:
    with pytest.raises(UserError):
        TopicRules().check_subject(subject, catalog, EVERYTHING)


def test_a_refused_subject_names_no_object_that_may_not_be_read(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="belongs to a view that you may not read") as refused_:
        TopicRules().check_subject("dsms.hot-value", catalog, lambda name: False)
    assert '"hot"' not in str(refused_.value)


def test_other_subjects_are_free(catalog: Catalog) -> None:
    for subject in ("readings-value", "t-key", "anything"):
        TopicRules().check_subject(subject, catalog, EVERYTHING)


@pytest.mark.parametrize(
    "topic",
    ["_dsms.main.progress", "__consumer_offsets", "dsms.T.dead-letters", "dsms.v", "dsms.names", "copy.letters"],
)
def test_publishing_to_system_topics_needs_an_administrator_and_force(topic: str) -> None:
    """Only an administrator can force it."""
    catalog = published_catalog()
    writer, administrator = Principal("ann", "writer"), Principal("root", "administrator")
    for principal in (writer, administrator):
        with pytest.raises(UserError, match=f'topic "{topic}" is reserved: it .*, and only the system writes it'):
            check_published(topic, catalog, principal)
    with pytest.raises(Forbidden, match="only an administrator may force records"):
        check_published(topic, catalog, writer, forced=True)
    check_published(topic, catalog, administrator, forced=True)


def test_token_with_rules_publishes_only_to_its_topics() -> None:
    ann = Principal("ann", "writer", AccessRules.of(write_topics=["t*"]))
    check_published("t", published_catalog(), ann)
    with pytest.raises(Forbidden, match='token "ann" may not write topic "orders"'):
        check_published("orders", published_catalog(), ann)


def published_catalog() -> Catalog:
    catalog, _ = apply_all(
        "REGISTER SOURCE T (k INT) FROM t; REGISTER SOURCE U (k INT) FROM t; CREATE STREAM S OVER T KEY k;"
        "CREATE STREAMED VIEW v AS SELECT k FROM S; CREATE TABLE names (k INT PRIMARY KEY)"
    )
    source = catalog.find("U")
    assert isinstance(source, Source)
    return catalog.with_changed(msgspec.structs.replace(source, own_dead_letter_topic="copy.letters"))
