"""Defaults (section 6.2) and equivalences (section 7.2) of CQL: both sides give the same relation at every instant."""

from __future__ import annotations

import random

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.papers.auction import STREAMS
from tests.papers.tables import FEW_CUTS, changes, relations

END = 45


def both(cut: tuple[int, int | None], *queries: str) -> list[list[str]]:
    """The changes of queries over a random stream of bids; asserts that their relations are equal at every instant."""
    session = LocalSession(*cut)
    session.execute(STREAMS)
    for number, query in enumerate(queries):
        session.execute(f"CREATE VIEW Q{number} AS {query}")
    chosen = random.Random(7)
    bids = sorted((chosen.randrange(30), chosen.randrange(3), chosen.randrange(4)) for _ in range(40))
    session.push("Bidding", [{"item_id": i, "bidder_id": 0, "bid_price": price, "ts": ts} for ts, i, price in bids])
    session.advance(END)
    shown = [relations(session, f"Q{number}", END) for number in range(len(queries))]
    assert shown[1:] == shown[:-1]
    assert shown[0]
    return [changes(session, f"Q{number}") for number in range(len(queries))]


#: A select list L and a condition C.
CASES = [
    ("item_id", "1 = 1"),
    ("*", "bid_price > 1"),
    ("bid_price + item_id AS x, bidder_id", "item_id = bid_price Or item_id = 2"),
]


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize(("columns", "condition"), CASES)
def test_window_reduction(cut: tuple[int, int | None], columns: str, condition: str) -> None:
    """Section 7.2.1: Unbounded with Istream is Now with Rstream."""
    unbounded, now = both(
        cut,
        f"Select Istream({columns}) From Bid[Range Unbounded]\nWhere {condition}",
        f"Select Rstream({columns}) From Bid[Now] Where {condition}",
    )
    assert unbounded == now


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
def test_window_reduction_over_a_subquery(cut: tuple[int, int | None]) -> None:
    both(
        cut,
        "Select Istream(p) From (Select bid_price AS p From Bid Where item_id < 2)[Range Unbounded] As S Where p > 0",
        "Select Rstream(p) From (Select bid_price AS p From Bid Where item_id < 2)[Now] As S Where p > 0",
    )


def test_istream_of_a_now_window_needs_a_key() -> None:
    """Footnote 4: Istream and Rstream over Now agree only if no tuple is present at two successive instants."""
    session = LocalSession()
    session.execute(f"{STREAMS} CREATE QUERY I AS Select Istream(item_id) From Close[Now];"
                    "CREATE QUERY R AS Select Rstream(item_id) From Close[Now]")  # fmt: skip
    session.push("Closing", [{"item_id": item, "ts": ts} for item, ts in ((1, 1), (1, 2), (2, 2), (1, 4))])
    session.advance(9)
    assert changes(session, "I") == ["+<1>1", "+<2>2", "+<1>4"]
    assert changes(session, "R") == ["+<1>1", "+<1>2", "+<2>2", "+<1>4"]


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize(("columns", "condition"), CASES)
@pytest.mark.parametrize("window", ["[Range 4]", "[Range 0]"])
def test_filter_window_commutativity(cut: tuple[int, int | None], columns: str, condition: str, window: str) -> None:
    """Section 7.2.2: (Select L From S Where C)[Range T] is Select L From S[Range T] Where C."""
    both(
        cut,
        f"Select STREAMED * From (Select {columns} From Bid Where {condition}){window} As x",
        f"Select STREAMED {columns} From Bid{window} Where {condition}",
    )


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
def test_query_6_2_with_the_filter_below_the_window(cut: tuple[int, int | None]) -> None:
    both(
        cut,
        """Select STREAMED Count(*) From
  (Select * From Bid
   Where item_id >= 1 and item_id <= 2)
 [Range 10]""",
        "Select STREAMED Count(*) From Bid[Range 10] Where item_id >= 1 and item_id <= 2",
    )


# --- section 6.2


def notices(query: str) -> set[str]:
    session = LocalSession()
    session.execute(STREAMS)
    notices = session.run(query)[-1].notices
    return {notice for notice in notices if not notice.startswith(("no key", "FORMAT", "output", "expanded"))}


ISTREAM = "Istream is applied by default: rows never leave the result"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Select Istream(*) From Open Where start_price > 100", {"default window of Open: [Range Unbounded]"}),
        ("Select * From Open[Range Unbounded] Where start_price > 100", {ISTREAM}),
        ("Select Open.item_id From Open[Range Unbounded], Close Where Open.item_id = Close.item_id",
         {ISTREAM, "default window of Close: [Range Unbounded]"}),
        ("Select Istream(Close.item_id) From Close[Now], Open[Range 5 Hours] Where Close.item_id = Open.item_id",
         set()),
        ("Select Istream(*) From ((Select item_id From Bid) Union (Select item_id From Open))"
         " [Partition By item_id Rows 1] As P",
         {"default window of Bid: [Range Unbounded]", "default window of Open: [Range Unbounded]",
          "Istream is applied by default to subquery P"}),
        ("Select Istream(*) From (Select Istream(item_id) From Bid [Range 5]) [Rows 1] As P", set()),
    ],
)  # fmt: skip
def test_defaults_are_reported(query: str, expected: set[str]) -> None:
    assert notices(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "Select Count(*) From Bid[Range 1 Hour]",
        "Select * From Bid[Rows 5]",
        "Select item_id From Open[Range Unbounded] Where item_id Not In (Select * From Close)",
    ],
)
def test_a_result_that_loses_rows_is_a_relation(query: str) -> None:
    session = LocalSession()
    session.execute(STREAMS)
    (created,) = session.run(query)
    assert created.statement == "SELECT STREAMED"
    assert "no Istream is applied by default: rows can leave the result, which is a relation" in created.notices


def test_a_window_over_a_subquery_that_loses_rows_has_no_default() -> None:
    with pytest.raises(SqlError, match="rows can leave the subquery, so CQL defines no default stream for its window"):
        notices("Select Istream(n) From (Select Count(*) As n From Bid[Range 5]) x [Rows 1]")
