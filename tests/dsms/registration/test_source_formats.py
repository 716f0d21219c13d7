"""Formats for sources only, and how a format determines the operation of a record."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

DEBEZIUM = """REGISTER SOURCE C (id INT, city VARCHAR) FROM c FORMAT DEBEZIUM; CREATE STREAM S OVER C KEY id;
CREATE STREAMED VIEW V AS SELECT id, city FROM R(S)"""


def test_events_of_debezium_say_what_they_do() -> None:
    session = LocalSession()
    session.execute(DEBEZIUM)
    session.push("C", [{"id": 1, "city": "Rome", "ts": 1}, {"id": 1, "city": "Oslo", "ts": 2}, {"id": 2, "ts": 3}])
    session.push("C", [{"id": 2, "op": "-", "ts": 4}])
    session.advance(5)
    assert session.changes("V") == [
        ("+", {"id": 1, "city": "Rome"}, 1),
        ("u", {"id": 1, "city": "Oslo"}, 2),
        ("+", {"id": 2, "city": None}, 3),
        ("-", {"id": 2}, 4),
    ]
    (result, *_) = LocalSession().run(DEBEZIUM)
    assert not any("TAGGED" in notice for notice in result.notices)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("REGISTER SOURCE T (a INT) FROM t FORMAT DEBEZIUM TAGGED NONE", "contain their operation"),
        ("REGISTER SOURCE T (a INT) FROM t FORMAT XML", 'unknown format "xml"'),
        (
            "CREATE STREAMED VIEW W WITH (format = csv) AS SELECT id FROM R(S)",
            "FORMAT CSV is only for sources, not for results",
        ),
        ("CREATE STREAMED VIEW W WITH (format = debezium) AS SELECT id FROM R(S)", "have: JSON, AVRO"),
    ],
)
def test_incompatible_clauses_are_refused(sql: str, why: str) -> None:
    session = LocalSession()
    session.execute(DEBEZIUM)
    with pytest.raises(SqlError) as error:
        session.execute(sql)
    assert why in f"{error.value.message}; {error.value.hint}"
