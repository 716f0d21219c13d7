"""The catalog stores the Kafka id of a query's topic, and that its records name their writer, for each statement that
creates or changes a query."""

import pytest

from dsms.model.objects import Query, Table
from dsms.statements.registry import apply, parse, resolved_statement
from tests.support.fake_environment import FakeEnvironment, apply_all

OBJECTS = """
REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE STREAM Bids (item INT, at BIGINT) ORDER BY at SOURCE 'bids'; CREATE TABLE Last (item INT PRIMARY KEY);
CREATE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 1
"""


@pytest.mark.parametrize(
    ("sql", "name", "topic"),
    [
        ("", "V", "dsms.V"),
        ("CREATE QUERY q WITH (topic = 'mine') AS SELECT k, v FROM S", "q", "mine"),
        ("CREATE OR REPLACE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 2", "V", "dsms.V"),
        ("ALTER VIEW V SET (weight = 2)", "V", "dsms.V"),
        ("INSERT INTO Last SELECT item FROM Bids", "Last_insert", "dsms.Last"),
    ],
)
def test_the_id_of_its_topic_is_stored(sql: str, name: str, topic: str) -> None:
    environment = FakeEnvironment({"t": {0: 0}, "bids": {0: 0}}, marked_by="main")
    catalog, _ = apply_all(OBJECTS, environment=environment)
    for statement in parse(sql):
        catalog, _ = apply(resolved_statement(statement, catalog), catalog, environment)
    query = catalog.find(name)
    assert isinstance(query, Query)
    assert (query.topic, query.topic_id, query.marked_by) == (topic, f"id of {topic}", "main")
    table = catalog.find("Last")
    assert isinstance(table, Table)
    assert table.source.marked_by == "main"
