"""INSERT INTO table SELECT … FROM stream: the table is a function of the stream's log alone."""

from __future__ import annotations

import random

import duckdb
import pytest

from dsms.model.objects import Query
from dsms.testing import LocalSession
from operators.core.errors import DsmsError

OBJECTS = """
CREATE STREAM Bids (item INT, price REAL, at BIGINT) ORDER BY at SOURCE 'bids';
CREATE STREAM Asks (item INT, at BIGINT) ORDER BY at SOURCE 'asks';
CREATE TABLE Last (item INT PRIMARY KEY, price DECIMAL(9, 2) NOT NULL, note VARCHAR)
"""
INSERT = "INSERT INTO Last (price, item) SELECT price * 2, item FROM Bids WHERE price > 0"


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.run(OBJECTS)
    return session


def histories(seed: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Bids and asks with equal instants and repeated items."""
    draw = random.Random(seed)
    instants = sorted(draw.randrange(1, 12) for _ in range(30))
    bids = [{"item": draw.randrange(4), "price": float(draw.randrange(-2, 9)), "at": at} for at in instants]
    asks = [{"item": draw.randrange(5), "at": at} for at in sorted(draw.randrange(1, 12) for _ in range(12))]
    return bids, asks


#: The rows of the table after the bids up to an instant: the last bid of each item.
EXPECTED = """
SELECT item, CAST(price * 2 AS DECIMAL(9, 2)) AS price, CAST(NULL AS VARCHAR) AS note FROM bids
WHERE price > 0 AND "at" <= $at QUALIFY row_number() OVER (PARTITION BY item ORDER BY number DESC) = 1 ORDER BY item
"""
#: The row of the table that each ask joins at its own instant.
JOINED = """
SELECT asks.item, asks."at", CAST(max_by(price, bids.number) * 2 AS DECIMAL(9, 2)) AS price
FROM asks JOIN bids ON bids.item = asks.item AND bids."at" <= asks."at" AND price > 0
GROUP BY asks.item, asks."at", asks.number ORDER BY ALL
"""


@pytest.mark.parametrize("seed", range(6))
def test_the_table_is_at_every_instant_what_duckdb_computes(seed: int) -> None:
    bids, asks = histories(seed)
    session = LocalSession(partitions=1 + seed % 3, batch_records=[None, 1, 4][seed % 3])
    session.run(OBJECTS)
    session.run(INSERT)
    met = "SELECT Istream(A.item, A.at, L.price) FROM Asks [NOW] A, Last L WHERE A.item = L.item"
    session.run(f"CREATE STREAM Met AS {met}")
    for low in range(0, 30, 7):
        session.push("Bids_source", bids[low : low + 7])
        session.push("Asks_source", asks[low // 7 * 3 : low // 7 * 3 + 3])
    session.advance(20)
    duck = duckdb.connect()
    duck.execute('CREATE TABLE bids (number INT, item INT, price REAL, "at" BIGINT)')
    duck.execute('CREATE TABLE asks (number INT, item INT, "at" BIGINT)')
    duck.executemany("INSERT INTO bids VALUES (?, ?, ?, ?)", [[n, *bid.values()] for n, bid in enumerate(bids)])
    duck.executemany("INSERT INTO asks VALUES (?, ?, ?)", [[n, *ask.values()] for n, ask in enumerate(asks)])
    for at in range(1, 13):
        expected = duck.execute(EXPECTED, {"at": at}).fetchall()
        rows = sorted(tuple(row.values()) for row in session.relation("Last", at))
        assert rows == expected, at
    by_item = sorted(session.relation("Last"), key=lambda row: int(str(row["item"])))
    assert session.execute("SELECT * FROM Last ORDER BY item") == by_item
    assert {tuple(row.values()) for _, row, _ in session.changes("Met")} == set(duck.execute(JOINED).fetchall())


def test_row_without_a_not_null_value_is_a_dead_letter(session: LocalSession) -> None:
    session.run(INSERT)
    session.push("Bids_source", [{"item": None, "price": 1.0, "at": 1}, {"item": 1, "price": 2.0, "at": 1}])
    session.advance(3)
    [letter] = session.dead_letters("Bids_source")
    assert (letter["offset"], letter["reason"], letter["query"]) == (0, 'NULL in "NOT_NULL(item)"', "Last_insert")
    assert [row["item"] for row in session.relation("Last")] == [1]


REFUSED = [
    ("INSERT INTO Asks SELECT item, at FROM Bids", '"Asks" is a stream, not a table'),
    ("INSERT INTO Last SELECT item FROM Bids", "3 columns but 1 values in a row"),
    ("INSERT INTO Last (item, item) SELECT item, at FROM Bids", 'column "item" is listed twice'),
    ("INSERT INTO Last (item) SELECT item FROM Bids", 'column "price" is NOT NULL and gets no value'),
    (
        "INSERT INTO Last (item, price) SELECT item, count(*) FROM R(Bids) GROUP BY item",
        "rows of this query can be deleted later",
    ),
    ("INSERT INTO Last (item, price) SELECT B.item, L.price FROM Bids [NOW] B, Last L", "the SELECT reads table"),
    (
        "CREATE VIEW V AS SELECT item FROM Last; INSERT INTO Last SELECT item, price, NULL FROM Bids",
        "read by V",
    ),
    ("INSERT INTO Last VALUES (1, 2, 'a'); INSERT INTO Last (item, price) SELECT item, price FROM Bids", "has 1 row"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_inserts_that_cannot_be_exact_are_refused(session: LocalSession, sql: str, message: str) -> None:
    with pytest.raises(DsmsError, match=message.replace("(", r"\(")):
        session.run(sql)
    assert not session.catalog.queries() or message == "read by V"


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO Last VALUES (1, 2, 'a')",
        "UPDATE Last SET note = 'x'",
        "DELETE FROM Last",
        "INSERT INTO Last (item, price) SELECT item, 1 FROM Asks",
    ],
)
def test_statements_cannot_write_a_table_filled_by_a_stream(session: LocalSession, sql: str) -> None:
    session.run(INSERT)
    with pytest.raises(DsmsError, match='filled by query "Last_insert", so statements cannot change its rows'):
        session.run(sql)


def test_the_query_is_listed_and_goes_with_its_table(session: LocalSession) -> None:
    [result] = session.run(INSERT)
    assert result.name == "Last_insert"
    assert [row["name"] for row in session.execute("SHOW QUERIES")] == ["Last_insert"]
    assert session.execute("SHOW CREATE Last_insert")[0]["sql"].startswith("INSERT INTO Last (price, item)")
    with pytest.raises(DsmsError, match="is used by Last"):
        session.run("DROP QUERY Last_insert")
    with pytest.raises(DsmsError, match="is used by Last_insert, Last"):
        session.run("DROP STREAM Bids")
    session.run("DROP TABLE Last; CREATE TABLE Last (item INT PRIMARY KEY); INSERT INTO Last SELECT item FROM Asks")
    assert [query.name for query in session.catalog.queries() if isinstance(query, Query)] == ["Last_insert"]


def test_the_last_of_several_definitions_goes_with_the_stream(session: LocalSession) -> None:
    session.run(INSERT)
    session.run("DROP STREAM Bids CASCADE")
    assert [item.name for item in (*session.catalog.queries(), *session.catalog.tables())] == []
