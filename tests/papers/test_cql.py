"""The queries of "An Abstract Semantics and Concrete Language for Continuous Queries over Streams and Relations".

The paper shows no data, so the streams are small and the results are worked out by hand from its definitions.
"""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from tests.papers.auction import auction, happens, minutes
from tests.papers.tables import CUTS

Cut = tuple[int, int | None]
pytestmark = pytest.mark.parametrize("cut", CUTS, ids=str)
END = 10_000 * 60_000


def relation_at(session: LocalSession, name: str, minute: int) -> list[tuple[object, ...]]:
    """The rows of a view at a minute."""
    return sorted(tuple(row.values()) for row in session.relation(name, at=minute * 60_000))


# --- section 6.3


@pytest.mark.parametrize(
    "query",
    [
        "Select * From Open Where start_price > 100",
        "Select Istream(*) From Open Where start_price > 100",
        "Select Istream(*) From Open[Now]\nWhere start_price > 100",
        "Select Rstream(*) From Open[Now] Where start_price > 100",
    ],
)
def test_query_6_1_stream_filter(cut: Cut, query: str) -> None:
    session = auction(cut, f"CREATE QUERY Q AS {query}")
    happens(session, "Opening", (1, 1, 7, 90), (2, 2, 7, 101), (2, 3, 8, 500), (5, 4, 8, 100))
    session.advance(END)
    assert minutes(session, "Q") == ["2 +(2, 7, 101)", "2 +(3, 8, 500)"]


BIDS = ((0, 100, 1, 7), (10, 150, 1, 8), (20, 300, 1, 9), (70, 200, 1, 5))
QUERY_6_2 = """Select Count(*) From Bid[Range 1 Hour]
Where item_id >= 100 and item_id <= 200"""


def test_query_6_2_sliding_window_aggregate(cut: Cut) -> None:
    """A bid of minute τ is counted in [τ, τ + 60], both ends included."""
    session = auction(cut, f"CREATE VIEW Q AS {QUERY_6_2}")
    happens(session, "Bidding", *BIDS)
    session.advance(END)
    counts = {0: 1, 9: 1, 10: 2, 20: 2, 60: 2, 61: 1, 69: 1, 70: 2, 71: 1, 130: 1, 131: 0}
    assert {at: relation_at(session, "Q", at) for at in counts} == {at: [(n,)] for at, n in counts.items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # a new value each time the count changes
        (
            QUERY_6_2.replace("Count(*)", "Istream(Count(*))"),
            ["start +(0)", "0 +(1)", "10 +(2)", "60.001 +(1)", "70 +(2)", "70.001 +(1)", "130.001 +(0)"],
        ),
        # the count at each instant at which the window slides
        (
            QUERY_6_2.replace("Count(*)", "Rstream(Count(*))").replace("Hour", "Hour Slide 30 Minutes"),
            ["0 +(1)", "30 +(2)", "60 +(2)", "90 +(1)", "120 +(1)", "150 +(0)"],
        ),
    ],
    ids=["Istream", "Rstream"],
)
def test_query_6_2_as_a_stream(cut: Cut, query: str, expected: list[str]) -> None:
    session = auction(cut, f"CREATE QUERY Q AS {query}")
    happens(session, "Bidding", *BIDS)
    session.advance(151 * 60_000)
    assert minutes(session, "Q") == expected


def test_query_6_2_as_written_is_a_relation(cut: Cut) -> None:
    """The result is a nonmonotonic relation, so no defaults are applied. Its changes by hand, from the counts above."""
    session = auction(cut, "")
    (created,) = session.run(QUERY_6_2)
    happens(session, "Bidding", *BIDS)
    session.advance(131 * 60_000)
    counts = {0: 1, 9: 1, 10: 2, 60: 2, 61: 1, 70: 2, 71: 1, 130: 1}
    assert created.statement == "SELECT STREAMED"
    assert {at: relation_at(session, created.name, at) for at in counts} == {at: [(n,)] for at, n in counts.items()}


def test_query_6_3_stream_subquery(cut: Cut) -> None:
    """The table of the currently open auctions."""
    session = auction(
        cut,
        """CREATE VIEW Q AS Select * From Open
Where item_id Not In (Select * From Close)""",
    )
    happens(session, "Opening", (1, 1, 7, 90), (2, 2, 7, 101), (6, 3, 8, 500))
    happens(session, "Closing", (4, 1), (9, 3))
    session.advance(END)
    assert minutes(session, "Q") == [
        "1 +(1, 7, 90)", "2 +(2, 7, 101)", "4 -(1, 7, 90)", "6 +(3, 8, 500)", "9 -(3, 8, 500)",
    ]  # fmt: skip


USER = """Select user_id, name, state
From Register[Partition By user_id Rows 1]
Where user_id Not In
      (Select * From Deregister)"""
REGISTERED = ((1, 1, "ann", "CA"), (2, 2, "bob", "NY"), (4, 2, "bob", "CA"), (7, 1, "ann", "TX"))
LEFT = ((9, 2),)


def test_query_6_4_derived_relation(cut: Cut) -> None:
    """The last registration of each user who has not left."""
    session = auction(cut, f"CREATE VIEW User AS {USER}")
    happens(session, "Registering", *REGISTERED)
    happens(session, "Leaving", *LEFT)
    session.advance(END)
    expected = {
        0: [],
        1: [(1, "ann", "CA")],
        2: [(1, "ann", "CA"), (2, "bob", "NY")],
        4: [(1, "ann", "CA"), (2, "bob", "CA")],
        7: [(1, "ann", "TX"), (2, "bob", "CA")],
        9: [(1, "ann", "TX")],
    }
    assert {at: relation_at(session, "User", at) for at in expected} == expected


@pytest.mark.parametrize("window", ["[Now]", "[Range Unbounded]"])
def test_query_6_5_relation_stream_join(cut: Cut, window: str) -> None:
    """The query names the user_id of User `id`, as in the paper."""
    session = auction(
        cut,
        f"CREATE VIEW User AS {USER.replace('Select user_id', 'Select user_id AS id')}",
        f"""CREATE QUERY Q AS Select Istream(Open.*) From Open{window}, User
Where seller_id = id and state = 'CA'""",
    )
    happens(session, "Registering", *REGISTERED)
    happens(session, "Leaving", *LEFT)
    happens(session, "Opening", (2, 20, 2, 5), (3, 10, 1, 5), (5, 21, 2, 5), (8, 11, 1, 5), (10, 22, 2, 5))
    session.advance(END)
    now = ["3 +(10, 1, 5)", "5 +(21, 2, 5)"]
    # "whenever a user moved into California all previous auctions started by that user would be generated"
    moved = ["3 +(10, 1, 5)", "4 +(20, 2, 5)", "5 +(21, 2, 5)"]
    assert minutes(session, "Q") == (now if window == "[Now]" else moved)


def test_query_6_6_windowed_stream_join(cut: Cut) -> None:
    """Auctions closed within 5 hours, that is, in a minute of [opened, opened + 300]."""
    session = auction(
        cut,
        """CREATE QUERY Q AS Select Istream(Close.item_id)
From Close[Now], Open[Range 5 Hours]
Where Close.item_id = Open.item_id""",
    )
    happens(session, "Opening", (1, 1, 7, 5), (2, 2, 7, 5), (3, 3, 7, 5), (400, 4, 7, 5))
    happens(session, "Closing", (10, 3), (301, 1), (303, 2), (400, 4), (401, 9))
    session.advance(END)
    assert minutes(session, "Q") == ["10 +(3)", "301 +(1)", "400 +(4)"]


@pytest.mark.parametrize("window", ["[Now]", "[Range Unbounded]"])
def test_query_6_7_complex_from_clause(cut: Cut, window: str) -> None:
    """The closing price of each auction; an Unbounded window on Close gives the same, as no bid follows the closing."""
    session = auction(
        cut,
        f"""CREATE QUERY Q AS Select Istream(Close.item_id, P.price)
From Close{window},
  ((Select item_id, bid_price as price
   From Bid)
  Union
  (Select item_id, start_price as price
   From Open))
  [Partition By item_id Rows 1] As P
Where Close.item_id = P.item_id""",
    )
    happens(session, "Opening", (1, 1, 7, 10), (2, 2, 7, 20), (3, 3, 7, 30))
    happens(session, "Bidding", (4, 1, 5, 11), (5, 2, 5, 21), (6, 1, 6, 15), (9, 2, 6, 40))
    happens(session, "Closing", (7, 1), (8, 3), (9, 2))
    session.advance(END)
    assert minutes(session, "Q") == ["7 +(1, 15)", "8 +(3, 30)", "9 +(2, 40)"]


# --- sections 4 and 5


def test_example_4_1_the_average_of_the_last_ten_minutes(cut: Cut) -> None:
    session = auction(cut, "CREATE QUERY Q AS Select Istream(Avg(bid_price)) From Bid[Range 10 Minutes]")
    happens(session, "Bidding", (0, 1, 1, 6), (4, 1, 1, 9), (12, 1, 1, 12))
    session.advance(END)
    assert minutes(session, "Q") == [
        "start +(None)", "0 +(6.0)", "4 +(7.5)", "10.001 +(9.0)", "12 +(10.5)", "14.001 +(12.0)", "22.001 +(None)",
    ]  # fmt: skip


SECTION_5_2 = """REGISTER SOURCE OfS (A INT) FROM s; CREATE STREAM S OVER OfS KEY NULL;
REGISTER SOURCE OfR (B INT) FROM r; CREATE STREAM R OVER OfR KEY B;"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        # the tuple of minute 6 replaces an equal one, so the join does not change
        ("Select Istream(*) From S[Rows 5], R", ["1 +(1, 1)", "3 +(2, 2)"]),
        ("Select Dstream(*) From S[Rows 5], R", ["8 +(2, 2)"]),
    ],
)
def test_section_5_2_a_row_window_joined_with_a_relation(cut: Cut, output: str, expected: list[str]) -> None:
    session = LocalSession(*cut)
    session.execute(f"{SECTION_5_2} CREATE QUERY Q AS {output} Where S.A = R.B")
    happens(session, "OfR", (0, 1), (0, 2))
    happens(session, "OfS", (1, 1), (2, 9), (3, 2), (4, 9), (5, 9), (6, 1), (7, 9), (8, 9))
    session.advance(END)
    assert minutes(session, "Q") == expected


def test_section_6_4_1_a_chronicle_join(cut: Cut) -> None:
    """The join has pairs of tuples of the same instant."""
    session = LocalSession(*cut)
    session.execute("""REGISTER SOURCE OfS (A INT) FROM s; CREATE STREAM S OVER OfS KEY NULL;
        REGISTER SOURCE OfT (B INT) FROM t; CREATE STREAM S2 OVER OfT KEY NULL;
        CREATE QUERY Q AS Select Rstream(*) From S[Now], S2[Now] Where S.A = S2.B""")
    happens(session, "OfS", (1, 1), (2, 1), (2, 1), (3, 2), (4, 2))
    happens(session, "OfT", (1, 1), (2, 1), (3, 1), (4, 2))
    session.advance(END)
    assert minutes(session, "Q") == ["1 +(1, 1)", "2 +(1, 1)", "2 +(1, 1)", "4 +(2, 2)"]


def test_section_6_4_2_a_tapestry_query(cut: Cut) -> None:
    """The set union of the results of Q at all instants: each price that once was the highest bid of an item."""
    session = auction(
        cut,
        "CREATE VIEW Q AS Select item_id, MAX(bid_price) AS price From Bid[Range 10 Minutes] Group By item_id",
        "CREATE QUERY T AS Select Istream(Distinct *)\nFrom (Istream(Q))[Range Unbounded]",
    )
    happens(session, "Bidding", (0, 1, 1, 6), (4, 1, 1, 9), (5, 1, 1, 6), (6, 2, 1, 6), (30, 1, 1, 9), (31, 2, 1, 7))
    session.advance(END)
    assert minutes(session, "T") == ["0 +(1, 6)", "4 +(1, 9)", "6 +(2, 6)", "31 +(2, 7)"]
