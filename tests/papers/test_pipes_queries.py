"""The queries of the PIPES thesis over its auctions (sections 7.2 and 12.3.2).

The numbers of Q3 and Q4 are those of figure 12.1, with windows of a few instants. For Q5, Q6 and the mean selling price
the auctions are ours and the results are worked out by hand.
"""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.papers.tables import FEW_CUTS, intervals, relations

HOUR = 3_600_000
AUCTIONS = """
CREATE STREAM OpenAuction (itemID INT, sellerID INT, start_price INT, at BIGINT) ORDERED BY at;
CREATE STREAM ClosedAuction (itemID INT, at BIGINT) ORDERED BY at;
CREATE STREAM Bid (itemID INT, bid_price INT, bidderID INT, at BIGINT) ORDERED BY at;
"""


@pytest.fixture(params=FEW_CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(AUCTIONS)
    return session


def push(session: LocalSession, stream: str, *events: tuple[int, ...], unit: int = 1) -> None:
    """Appends events: the instant, then the columns."""
    source = f"{stream}_source"
    names = [name for name in session.catalog.find(source).schema.names if name != "at"]
    records = [dict(zip(names, row, strict=True)) | {"at": ts * unit, "ts": ts * unit} for ts, *row in events]
    session.push(source, records)


def test_q3_short_auctions(session: LocalSession) -> None:
    """Q3 with a window of five instants: item 1 is closed in time, and is in the result at that instant."""
    session.execute("""CREATE STREAM Q3 AS
SELECT O.* FROM OpenAuction O WINDOW(RANGE 5), ClosedAuction C WHERE O.itemID = C.itemID""")
    push(session, "OpenAuction", (10, 1, 7, 5), (20, 2, 7, 5))
    push(session, "ClosedAuction", (13, 1), (30, 2))
    session.advance(40)
    assert relations(session, "Q3", 40) == intervals("(1,7,5)[13,14)", 40)


def test_q4_highest_bid(session: LocalSession) -> None:
    """Q4 with a window of four instants."""
    session.execute("CREATE STREAM Highest AS SELECT MAX(bid_price) AS p FROM Bid WINDOW(RANGE 4) HAVING COUNT(*) > 0")
    session.execute("""CREATE STREAM Q4 AS
SELECT itemID, bid_price FROM Bid WINDOW(RANGE 4)
WHERE bid_price = (SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 4))""")
    push(session, "Bid", (1, 1, 5, 0), (3, 2, 7, 0), (5, 3, 6, 0))
    session.advance(20)
    assert relations(session, "Highest", 20) == intervals("5[1,3) 7[3,7) 6[7,9)", 20)
    assert relations(session, "Q4", 20) == intervals("(1,5)[1,3) (2,7)[3,7) (3,6)[7,9)", 20)


Q5 = """CREATE STREAM CurrentPrice AS
  SELECT P.itemID, P.price, O.sellerID AS sellerID
  FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS)) UNION ALL
        (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
       ClosedAuction C, OpenAuction O WINDOW(RANGE 2 DAYS)
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID;
CREATE STREAM ClosingPriceStream AS
  SELECT itemID, sellerID, MAX(P.price) AS price FROM CurrentPrice P GROUP BY P.itemID, P.sellerID"""


def test_q5_closing_price_and_the_mean_of_the_last_ten(session: LocalSession) -> None:
    """An auction of more than two days has no closing price. The mean is over a window on a derived stream."""
    session.execute(Q5)
    session.execute("""CREATE STREAM Mean AS
SELECT sellerID, AVG(price) AS mean FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 10) GROUP BY sellerID""")
    session.execute("""CREATE STREAM MeanOf2 AS
SELECT sellerID, AVG(price) AS mean FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 2) GROUP BY sellerID""")
    push(session, "OpenAuction", (0, 1, 7, 10), (0, 2, 7, 20), (0, 3, 7, 30), (1, 4, 8, 5), unit=HOUR)
    push(session, "Bid", (2, 1, 15, 0), (3, 2, 40, 0), (3, 1, 16, 0), unit=HOUR)
    push(session, "ClosedAuction", (4, 1), (5, 2), (6, 3), (60, 4), unit=HOUR)
    session.advance(100 * HOUR)
    prices = [(op, ts / HOUR, *row.values()) for op, row, ts in session.changes("ClosingPriceStream") if op == "+"]
    assert prices == [("+", 4, 1, 7, 16), ("+", 5, 2, 7, 40), ("+", 6, 3, 7, 30)]
    # each is valid for the instant of the closing
    assert [(op, ts % HOUR) for op, _, ts in session.changes("ClosingPriceStream")] == [("+", 0), ("-", 1)] * 3
    means = [[(row["mean"], ts / HOUR) for _, row, ts in session.changes(name)] for name in ("Mean", "MeanOf2")]
    assert means == [[(16, 4), (28, 5), (pytest.approx(86 / 3), 6)], [(16, 4), (28, 5), (35, 6)]]


def test_q6_hot_item(session: LocalSession) -> None:
    """The items with most bids in the last 60 minutes (as in the thesis's text; its plan has ten)."""
    session.execute("""CREATE STREAM Q6 AS
SELECT itemID FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num FROM Bid B1 WINDOW(RANGE 60 MINUTES) GROUP BY B1.itemID)
WHERE num >= ALL (SELECT COUNT(*) FROM Bid B2 WINDOW(RANGE 60 MINUTES) GROUP BY B2.itemID)""")
    push(session, "Bid", (0, 1, 5, 0), (10, 2, 5, 0), (20, 2, 6, 0), (65, 3, 5, 0), (75, 3, 6, 0), unit=HOUR // 60)
    session.advance(200 * HOUR)
    hot = {minute: sorted(row["itemID"] for row in session.relation("Q6", at=minute * HOUR // 60))
           for minute in (0, 10, 19, 20, 65, 69, 70, 75, 79, 80, 134, 135)}  # fmt: skip
    assert hot == {
        0: [1], 10: [1, 2], 19: [1, 2], 20: [2], 65: [2], 69: [2], 70: [2, 3], 75: [3], 79: [3], 80: [3], 134: [3],
        135: [],
    }  # fmt: skip


def test_attribute_of_ordered_by_is_not_in_the_stream_schema(session: LocalSession) -> None:
    """Section 7.2: it is declared, but removed from the schema; queries cannot use it."""
    (described,) = session.run("DESCRIBE Bid")
    assert [row[0] for row in described.rows] == ["itemID", "bid_price", "bidderID"]
    with pytest.raises(SqlError, match='column "at" not found; have: Bid.itemID, Bid.bid_price, Bid.bidderID, Bid.TS'):
        session.execute("SELECT STREAMED at FROM Bid")


def test_timestamp_outside_the_schema_still_orders_the_stream() -> None:
    """The declaration of section 7.2, with its TIMESTAMP."""
    session = LocalSession()
    session.execute("""CREATE STREAM Opened (itemID INT, sellerID INT, start_price REAL, timestamp TIMESTAMP)
        SOURCE establishConnection('port34100', 'converter') ORDERED BY timestamp;
        CREATE STREAMED VIEW V AS SELECT itemID FROM Opened""")
    moments = ["2005-01-01T00:00:00Z", "2005-01-01T00:00:01Z"]
    session.push("Opened_source", [{"itemID": at, "timestamp": moment} for at, moment in enumerate(moments)])
    session.advance(2 * 10**12)
    first = 1_104_537_600_000
    assert session.changes("V") == [("+", {"itemID": 0}, first), ("+", {"itemID": 1}, first + 1_000)]


def test_with_order_by_the_column_stays() -> None:
    """ESL's ORDER BY names a column of the stream."""
    session = LocalSession()
    session.execute("CREATE STREAM Opened (itemID INT, start_time BIGINT) ORDER BY start_time SOURCE 'port4445'")
    (described,) = session.run("DESCRIBE Opened")
    assert [row[0] for row in described.rows] == ["itemID", "start_time"]
