"""ESL's streams (Bai et al., CIKM 2006, section 2): examples 1, 2, 3, 5 and 6 as the paper prints them.

The paper gives no numbers; the auctions are ours and the results are worked out by hand.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.papers.tables import CUTS

#: Example 1, with its misprinted semicolons.
EXAMPLE_1 = """
CREATE STREAM OpenAuction (itemID int,
    sellerID char(10), price real, start_time timestamp)
    ORDER BY start_time; /* external timestamps */
    SOURCE 'port4445';

CREATE STREAM ClosedAuction(itemID int,
    buyerID char(10), price real, current_time timestamp)
    ORDER BY current_time; /* internal timestamp */
    SOURCE 'port4446';

CREATE STREAM Bid(itemID int,
    price real, bidderID char(10), bid_time timestamp)
    SOURCE 'port4447';
"""
EXAMPLE_2 = """
SELECT itemID, sellerID, price, start_time
    FROM OpenAuction WHERE price > 1000
"""
EXAMPLE_3 = """
CREATE STREAM expensiveItems AS
    SELECT itemID, sellerID, price, start_time
    FROM OpenAuction WHERE price > 1000
"""
EXAMPLE_5 = """
SELECT itemID, sellerID, price, min(price) OVER (PARTITION BY
SellerID RANGE UNBOUNDED PRECEDING)
AS Price FROM OpenAuction
"""
EXAMPLE_6 = """
CREATE STREAM PriceRise(itemID, price, Time) AS
SELECT itemID, price, start_time FROM OpenAuction
UNION ALL
SELECT itemID, price, current_time FROM ClosedAuction
"""
#: (seconds, item, seller, price)
OPENED = [(10, 1, "ann", 900.0), (20, 2, "ann", 1500.0), (20, 3, "bob", 1000.5), (30, 4, "ann", 850.0)]
CLOSED = [(15, 1, "cas", 950.0), (30, 3, "dan", 1200.0)]


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(EXAMPLE_1)
    return session


def moment(seconds: int) -> datetime:
    return datetime.fromisoformat(f"2006-11-05T12:00:{seconds:02}")


def instant(seconds: int) -> int:
    """2006-11-05 12:00 UTC is 1 162 728 000 s after 1970."""
    return (1_162_728_000 + seconds) * 1_000


def push(session: LocalSession) -> None:
    """Pushes auctions: the opened ones contain their time; the closed ones get the time of their arrival."""
    opened = [
        {"itemID": item, "sellerID": seller, "price": price, "start_time": moment(at).isoformat() + "Z"}
        for at, item, seller, price in OPENED
    ]
    closed = [
        {"itemID": item, "buyerID": buyer, "price": price, "ts": instant(at)} for at, item, buyer, price in CLOSED
    ]
    session.push("OpenAuction_source", opened)
    session.push("ClosedAuction_source", closed)
    session.advance(instant(60))


def rows(session: LocalSession, name: str) -> list[tuple[object, ...]]:
    """The published rows in the order of their publication; all are insertions."""
    changes = session.changes(name)
    assert {op for op, _, _ in changes} <= {"+"}
    return [(*row.values(), ts) for _, row, ts in changes]


def test_example_1_three_kinds_of_timestamps() -> None:
    opened, closed, bid = LocalSession().run(EXAMPLE_1)
    assert "external timestamps: the column start_time" in opened.notices
    assert "internal timestamps: current_time is the instant of arrival" in closed.notices
    assert "latent timestamps: a record has the instant of its arrival" in bid.notices


def test_example_1_the_time_of_arrival_becomes_a_column(session: LocalSession) -> None:
    push(session)
    session.push("ClosedAuction_source", [{"itemID": 9, "current_time": "1999-01-01T00:00:00Z", "ts": instant(59)}])
    session.advance(instant(70))
    assert rows(session, "ClosedAuction") == [
        (1, "cas", 950.0, moment(15), instant(15)),
        (3, "dan", 1200.0, moment(30), instant(30)),
        # a heartbeat has promised that no record follows below 60; the time in the record itself is ignored
        (9, None, None, datetime.fromisoformat("2006-11-05T12:01:00"), instant(60)),
    ]
    assert session.dead_letters("ClosedAuction_source") == []


def test_example_1_latent_timestamps_are_never_late(session: LocalSession) -> None:
    session.push("Bid_source", [{"itemID": item, "ts": ts} for item, ts in ((1, 5), (2, 3), (3, 6))])
    session.advance(10)
    assert [(row["itemID"], ts) for _, row, ts in session.changes("Bid")] == [(1, 5), (2, 5), (3, 6)]


def test_examples_2_and_3_a_selection_is_continuous(session: LocalSession) -> None:
    (started,) = session.run(EXAMPLE_2)
    assert started.name is not None
    session.execute(EXAMPLE_3)
    push(session)
    expensive = [
        (2, "ann", 1500.0, moment(20), instant(20)),
        (3, "bob", 1000.5, moment(20), instant(20)),
    ]
    assert rows(session, "expensiveItems") == expensive
    assert rows(session, started.name) == expensive


def test_example_2_twice_is_one_query(session: LocalSession) -> None:
    first, again = session.run(f"{EXAMPLE_2}; {EXAMPLE_2}")
    assert first.name == again.name
    assert again.message == f'query "{first.name}" is already running'


def test_example_5_smallest_price_so_far(session: LocalSession) -> None:
    """`price` and `Price` are one name in SQL, so the second one gets a number."""
    (started,) = session.run(EXAMPLE_5)
    assert started.name is not None
    push(session)
    assert [tuple(row) for _, row, _ in session.changes(started.name)[:1]] == [
        ("itemID", "sellerID", "price", "Price_2")
    ]
    assert rows(session, started.name) == [
        (1, "ann", 900.0, 900.0, instant(10)),
        (2, "ann", 1500.0, 900.0, instant(20)),
        (3, "bob", 1000.5, 1000.5, instant(20)),
        (4, "ann", 850.0, 850.0, instant(30)),
    ]


def test_example_6_union_is_a_merge_by_timestamp(session: LocalSession) -> None:
    session.execute(EXAMPLE_6)
    push(session)
    assert rows(session, "PriceRise") == [
        (1, 900.0, moment(10), instant(10)),
        (1, 950.0, moment(15), instant(15)),
        (2, 1500.0, moment(20), instant(20)),
        (3, 1000.5, moment(20), instant(20)),
        (4, 850.0, moment(30), instant(30)),
        (3, 1200.0, moment(30), instant(30)),
    ]


def test_union_without_all_eliminates_duplicates(session: LocalSession) -> None:
    """A tuple that occurs several times at one instant is published once; at another instant it is another tuple."""
    session.execute("CREATE STREAM Prices AS SELECT itemID, price, start_time FROM OpenAuction "
                    "UNION SELECT itemID, price, current_time FROM ClosedAuction")  # fmt: skip
    opened = {"itemID": 1, "price": 2.0, "start_time": moment(10).isoformat() + "Z"}
    session.push("OpenAuction_source", [opened, opened])
    session.push("ClosedAuction_source", [{"itemID": 1, "price": 2.0, "ts": instant(at)} for at in (10, 11)])
    session.advance(instant(60))
    assert rows(session, "Prices") == [(1, 2.0, moment(10), instant(10)), (1, 2.0, moment(11), instant(11))]


LATE = "CREATE STREAM Readings (id INT, at BIGINT) ORDER BY at SOURCE 'r' SLACK 2 LATE INTO Stragglers"


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_out_of_order_tuples_are_merged_within_the_slack_else_a_stream_of_their_own(
    cut: tuple[int, int | None],
) -> None:
    session = LocalSession(*cut)
    (declared,) = session.run(LATE)
    assert 'late records go into the stream "Stragglers"' in declared.notices
    session.execute("CREATE STREAM Both AS SELECT id, at FROM Readings UNION ALL SELECT id, at FROM Stragglers")
    for id, at in enumerate([10, 9, 12, 8, 11, 20, 17]):
        session.push("Readings_source", [{"id": id, "at": at}])
    session.advance(30)
    assert rows(session, "Readings") == [(1, 9, 9), (0, 10, 10), (4, 11, 11), (2, 12, 12), (5, 20, 20)]
    # 8 arrived when the frontier was 12 - 2, and 17 when it was 20 - 2
    assert rows(session, "Stragglers") == [(3, 8, 10), (6, 17, 18)]
    assert [row[0] for row in rows(session, "Both")] == [1, 0, 3, 4, 2, 6, 5]
    assert [letter["offset"] for letter in session.dead_letters("Readings_source")] == [3, 6]


def test_a_stream_of_late_records_goes_with_its_source() -> None:
    session = LocalSession()
    session.execute(LATE)
    with pytest.raises(SqlError, match=r'"Readings_source" is used by Readings, Stragglers_source, Stragglers'):
        session.execute("DROP SOURCE Readings_source")
    session.execute("DROP SOURCE Readings_source CASCADE")
    assert session.execute("SHOW STREAMS") == []


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE STREAM S (a INT) SOURCE 's' LATE INTO L", "LATE INTO needs ORDER BY"),
        ("CREATE STREAM S (a INT, at INT) ORDER BY at LATE L", "have: LATE INTO stream"),
        ("CREATE STREAM S (a INT, at INT) ORDER BY at LATE INTO S", 'named "S" already exists'),
        ("CREATE STREAM S (a INT, current_time DATE) ORDER BY current_time", "TIMESTAMP or BIGINT, not DATE"),
        ("CREATE STREAM S (a INT); SOURCE 'x'; SOURCE 'y'", "clause SOURCE is given twice"),
        ("SELECT 1; SOURCE 'y'", '"SOURCE" does not start a statement'),
    ],
)
def test_what_is_refused(sql: str, why: str) -> None:
    session = LocalSession()
    with pytest.raises(SqlError, match=why):
        session.execute(sql)


def test_a_name_with_hyphens() -> None:
    """Example 18 calls its stream `larceny-in-progress`."""
    session = LocalSession()
    session.execute("CREATE STREAM tags (tagid INT, tagtime INT); "
                    "CREATE STREAM larceny-in-progress AS (SELECT tagid FROM tags WHERE tagid > 1)")  # fmt: skip
    (started,) = session.run('SELECT tagid FROM "larceny-in-progress" WHERE tagid > 2')
    session.push("tags_source", [{"tagid": tag, "ts": tag} for tag in (1, 2, 3)])
    session.advance(4)
    assert rows(session, "larceny-in-progress") == [(2, 2), (3, 3)]
    assert rows(session, str(started.name)) == [(3, 3)]


def test_an_alias_before_over() -> None:
    """Example 15 prints `sum(bid.price) AS s OVER (…)`."""
    session = LocalSession()
    session.execute(EXAMPLE_1)
    (started,) = session.run("SELECT itemID, sum(bid.price) AS s OVER (PARTITION BY itemID ROWS 1 PRECEDING) FROM Bid")
    prices = [(1, 1.0), (1, 2.0), (2, 5.0), (1, 4.0)]
    session.push("Bid_source", [{"itemID": i, "price": p, "ts": at} for at, (i, p) in enumerate(prices)])
    session.advance(4)
    assert rows(session, str(started.name)) == [(1, 1.0, 0), (1, 3.0, 1), (2, 5.0, 2), (1, 6.0, 3)]


def test_a_select_over_a_stream_with_a_source_of_its_own_stays_one_time() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE T (a INT) FROM t; CREATE STREAM S OVER T KEY NULL")
    session.push("T", [{"a": 7, "ts": 1}])
    session.advance(2)
    assert session.execute("SELECT a FROM S") == [{"a": 7}]
