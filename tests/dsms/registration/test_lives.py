"""CLUSTERED BY and REFERENCES: their syntax, display and effect, for every type of column."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from dsms.testing import LocalSession
from operators.core.errors import UserError

DAY, NOON = date(2024, 5, 1), datetime.fromisoformat("2024-05-01T12:00:00")
ORDERS = """REGISTER SOURCE O (id {type}, v INT) FROM o CONSTRAINT CLUSTERED BY id WITHIN 3;
CREATE STREAM S OVER O KEY NULL;"""
PAID = """REGISTER SOURCE P (of {type}, v INT) FROM p CONSTRAINT of REFERENCES o (ID) WITHIN 5;
CREATE STREAM L OVER P KEY NULL;"""


def pushed(script: str, **records: list[tuple[object, int]]) -> LocalSession:
    """A session with records (value, instant) pushed to the sources of these names."""
    session = LocalSession(partitions=2)
    session.execute(script)
    for source, rows in records.items():
        column = "id" if source == "O" else "of"
        session.push(source, [{column: value, "v": at, "ts": ts} for at, (value, ts) in enumerate(rows)])
    session.advance(1_000)
    return session


def refused(session: LocalSession, source: str, query: str) -> list[int]:
    return [letter["offset"] for letter in session.dead_letters(source) if letter["query"] == query]


@pytest.mark.parametrize(
    ("type_", "a", "b"),
    [
        ("BIGINT", 1, -(2**63)),
        ("TINYINT", 5, -128),
        ("VARCHAR", "", "a \u2603"),
        ("DATE", DAY, date(2024, 5, 2)),
        ("TIMESTAMP", NOON, NOON + timedelta(microseconds=1)),
    ],
)
def test_values_of_every_type_have_one_life(type_: str, a: object, b: object) -> None:
    orders = [(a, 0), (b, 3), (None, 3), (a, 3), (a, 7), (None, 20), (b, 20), (a, 40)]
    paid = [(b, 2), (a, 3), (None, 3), (a, 8), (b, 8), (a, 9), (b, 9)]
    session = pushed((ORDERS + PAID).format(type=type_), O=orders, P=paid)
    assert refused(session, "O", "S") == [4, 6, 7]
    assert refused(session, "P", "L") == [0, 5, 6]
    assert [row["v"] for _, row, _ in session.changes("S")] == [0, 1, 2, 3, 5]
    assert [row["v"] for _, row, _ in session.changes("L")] == [1, 2, 3, 4]
    shown = [
        (row["source"], row["promise"], row["largest k seen"], row["violations"])
        for row in session.execute("SHOW CONSTRAINTS FOR L")
    ]
    assert shown == [
        ("O", "CLUSTERED BY id WITHIN 3", 3, 3),
        ("P", "of REFERENCES O (id) WITHIN 5", 5, 3),
    ]


def test_texts_of_dead_letters_and_descriptions() -> None:
    session = pushed((ORDERS + PAID).format(type="BIGINT"), O=[(1, 0), (1, 4)], P=[(7, 5)])
    (order,), (paid,) = (session.dead_letters(source)[:1] for source in "OP")
    assert order["reason"] == (
        "violates CLUSTERED BY id WITHIN 3: the value 1 came more than 3 instants after its last valid record"
    )
    assert paid["reason"] == (
        "violates of REFERENCES O (id) WITHIN 5: no record of O at most 5 instants earlier has id = 7"
    )
    (described,) = session.run("DESCRIBE P")
    assert described.message == 'source "P": registered, of REFERENCES O (id) WITHIN 5'
    assert "source P, of REFERENCES O (id) WITHIN 5" in session.explain("L")


def test_a_duration_is_in_milliseconds() -> None:
    session = pushed("REGISTER SOURCE O (id INT, v INT) FROM o CONSTRAINT clustered by id within 2 Seconds")
    (described,) = session.run("DESCRIBE O")
    assert described.message == 'source "O": registered, CLUSTERED BY id WITHIN 2000'


def test_a_deletion_is_a_record_too() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE O (id INT, v INT) FROM o CONSTRAINT CLUSTERED BY id WITHIN 3")
    session.execute("CREATE STREAM S OVER O KEY id")
    rows = [("+", 1, 0), ("-", 1, 3), ("+", 1, 6), ("+", 2, 6), ("-", 2, 10)]
    session.push("O", [{"op": op, "id": value, "v": 0, "ts": ts} for op, value, ts in rows])
    session.advance(100)
    assert [(op, row["id"], ts) for op, row, ts in session.changes("S")] == [
        ("+", 1, 0),
        ("-", 1, 3),
        ("+", 1, 6),
        ("+", 2, 6),
    ]
    assert refused(session, "O", "S") == [4]


def test_referenced_records_stay_as_long_as_records_may_refer_to_them() -> None:
    session = pushed((ORDERS + PAID).format(type="INT"))
    with pytest.raises(UserError, match='"O" is used by S, P, L'):
        session.execute("DROP SOURCE O")


def test_input_with_promises_beyond_order_is_not_shed() -> None:
    session = pushed(ORDERS.format(type="INT"))
    with pytest.raises(UserError, match="MAX_ERROR cannot be guaranteed over a source with CLUSTERED BY"):
        session.execute("CREATE QUERY V WITH (max_error = 0.1) AS SELECT v, count(*) AS n FROM S GROUP BY v")


def test_only_consequences_of_the_promises_are_used() -> None:
    session = pushed((ORDERS + PAID).format(type="BIGINT") + "CREATE STREAM K OVER O KEY v;")
    session.execute("REGISTER SOURCE F (id BIGINT) FROM f; CREATE STREAM F1 OVER F KEY NULL")
    forgets = {
        "SELECT id, count(*) AS n FROM S GROUP BY id": "forgets by id)",
        "SELECT of, count(*) AS n FROM L GROUP BY of": "forgets by of)",
        "SELECT id, L.v FROM S JOIN L ON id = of": "forgets by id, of)",
        "SELECT v, count(*) AS n FROM S GROUP BY v": "",
        "SELECT id, count(*) AS n FROM K GROUP BY id": "",
        "SELECT id, count(*) AS n FROM S [RANGE 5] GROUP BY id": "",
        "SELECT S.id, v FROM S JOIN F1 ON S.id = F1.id": "",
        "SELECT window_start, count(*) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(id), 10) GROUP BY window_start": "",
    }
    for query, wanted in forgets.items():
        session.execute(f"CREATE STREAMED VIEW V AS {query}")
        plan = session.explain("V")
        assert wanted in plan if wanted else "forgets" not in plan, query
        session.execute("DROP VIEW V")
