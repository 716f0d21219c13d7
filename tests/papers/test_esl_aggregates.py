"""ESL's aggregates (Bai et al., CIKM 2006, sections 3 to 7): examples 4 and 7 to 18 as the paper prints them.

The paper gives no numbers; the auctions are those of `test_esl_streams`, and the results are worked out by hand.
"""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.papers import esl_aggregates as paper
from tests.papers.tables import CUTS
from tests.papers.test_esl_streams import EXAMPLE_1, instant, moment, push, rows


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(EXAMPLE_1)
    return session


def started(session: LocalSession, select: str) -> str:
    """The name of the continuous query that a SELECT starts."""
    name = session.run(select)[-1].name
    assert name is not None
    return name


def test_examples_4_and_8_the_recent_average(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_8)
    query = started(session, paper.EXAMPLE_4)
    push(session)
    # (0.9 · 950 + 1.1 · 1200) / 2
    assert rows(session, query) == [(950.0, instant(15)), (1087.5, instant(30))]


def test_example_7_is_for_relations(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_7)
    with pytest.raises(UserError, match="returns at the end of its input, but a stream has no end"):
        session.execute("SELECT sellerID, avg(price) FROM OpenAuction GROUP BY sellerID")
    session.execute("CREATE VIEW v AS SELECT sellerID, avg(price) AS p FROM R(OpenAuction) GROUP BY sellerID")
    push(session)
    assert session.relation("v", at=instant(25)) == [{"sellerID": "ann", "p": 1200.0}, {"sellerID": "bob", "p": 1000.5}]
    assert session.relation("v") == [{"sellerID": "ann", "p": 3250 / 3}, {"sellerID": "bob", "p": 1000.5}]


def test_example_9_the_recent_average_by_seller(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_8)
    session.execute(paper.EXAMPLE_9)
    push(session)
    assert rows(session, "AskdPrice") == [
        ("ann", 900.0, instant(10)),
        ("ann", (0.9 * 900 + 1.1 * 1500) / 2, instant(20)),
        ("bob", 1000.5, instant(20)),
        ("ann", (0.9 * (0.9 * 900 + 1.1 * 1500) + 1.1 * 850) / 3, instant(30)),
    ]


def test_example_10_is_the_unbounded_version_of_example_7(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_10)
    session.execute("CREATE STREAM c AS SELECT sellerID, cum_avg(price) AS p FROM OpenAuction GROUP BY sellerID")
    session.execute(paper.EXAMPLE_7)
    session.execute(
        "CREATE STREAM u AS SELECT sellerID, avg(price) OVER (PARTITION BY sellerID RANGE UNBOUNDED PRECEDING) AS p "
        "FROM OpenAuction"
    )
    push(session)
    expected = [
        ("ann", 900.0, instant(10)),
        ("ann", 1200.0, instant(20)),
        ("bob", 1000.5, instant(20)),
        ("ann", 3250 / 3, instant(30)),
    ]
    assert rows(session, "c") == expected
    assert rows(session, "u") == expected


@pytest.mark.parametrize(
    ("definitions", "name"),
    [
        (paper.EXAMPLE_7, "avg"),
        (paper.EXAMPLE_7 + paper.EXAMPLE_11, "avg"),
        (paper.EXAMPLE_11, "avg"),
        (paper.EXAMPLE_12, "myavg"),
    ],
    ids=["example 7, derived", "examples 7 and 11", "example 11 over the built-in one", "example 12"],
)
def test_examples_11_and_12_the_average_of_a_window(session: LocalSession, definitions: str, name: str) -> None:
    session.execute(definitions)
    over = f"{name}(price) OVER (PARTITION BY sellerID ROWS 1 PRECEDING)"
    session.execute(f"CREATE STREAM w AS SELECT itemID, {over} AS p FROM OpenAuction")
    push(session)
    expected = [(1, 900.0, instant(10)), (2, 1200.0, instant(20)), (3, 1000.5, instant(20)), (4, 1175.0, instant(30))]
    assert rows(session, "w") == expected


def test_example_13_the_maximum_of_a_window(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_13)
    over = "max(price) OVER (PARTITION BY sellerID RANGE 10 SECONDS PRECEDING)"
    session.execute(f"CREATE STREAM w AS SELECT itemID, {over} AS p FROM OpenAuction")
    push(session)
    assert rows(session, "w") == [
        (1, 900.0, instant(10)),
        (2, 1500.0, instant(20)),
        (3, 1000.5, instant(20)),
        (4, 1500.0, instant(30)),
    ]


def bids(session: LocalSession, count: int) -> None:
    """Bids of 1, 2, 3, … for item 7, one a second."""
    session.push("Bid_source", [{"itemID": 7, "price": float(n), "ts": n} for n in range(1, count + 1)])
    session.advance(count + 1)


def test_examples_14_and_15_a_slide_and_its_panes(session: LocalSession) -> None:
    slide, panes = started(session, paper.EXAMPLE_14), started(session, paper.EXAMPLE_15)
    bids(session, 65)
    # 1 + … + 10, …, 1 + … + 50, and then the last fifty: 11 + … + 60
    expected = [
        (7, total, n) for n, total in ((10, 55.0), (20, 210.0), (30, 465.0), (40, 820.0), (50, 1275.0), (60, 1775.0))
    ]
    assert rows(session, slide) == expected
    assert rows(session, panes) == expected
    assert [row for row in rows(session, "temp")][:2] == [(7, 55.0, 10), (7, 155.0, 20)]


def test_section_5_1_a_tumble_reads_the_end_of_its_slot(session: LocalSession) -> None:
    query = started(session, "SELECT sum(price) OVER (ROWS 9 PRECEDING SLIDE 28) FROM Bid")
    bids(session, 60)
    assert rows(session, query) == [(sum(range(19, 29)), 28), (sum(range(47, 57)), 56)]


def test_section_5_2_an_average_when_a_row_expires(session: LocalSession) -> None:
    """The prices are whole numbers, since `tsum` of the paper is an Int. The average of no rows is NULL."""
    session.execute(paper.ACTIVE_AVERAGE)
    query = started(session, "SELECT price, myavg(price) OVER (RANGE 4 PRECEDING ACTIVE EXPIRATION) FROM Bid")
    session.push("Bid_source", [{"price": price, "ts": at} for price, at in ((6.0, 1), (2.0, 3), (4.0, 6))])
    session.advance(20)
    assert rows(session, query) == [
        (6.0, 6.0, 1),
        (2.0, 4.0, 3),
        (6.0, 2.0, 6),  # 6 leaves before 4 arrives
        (4.0, 3.0, 6),
        (2.0, 4.0, 8),
        (4.0, None, 11),
    ]


def test_example_16_returns_rows_that_expire(session: LocalSession) -> None:
    session.execute(paper.EXAMPLE_16)
    over = "max(price) OVER (PARTITION BY sellerID RANGE 15 SECONDS PRECEDING ACTIVE EXPIRATION)"
    session.execute(f"CREATE STREAM w AS SELECT itemID, {over} AS p FROM OpenAuction")
    push(session)
    assert rows(session, "w") == [
        (1, 900.0, instant(10)),
        (3, 1000.5, instant(20)),
        (2, 1500.0, instant(35) + 1),
        (3, 1000.5, instant(35) + 1),
        (4, 850.0, instant(45) + 1),
    ]


def test_example_17_groups_of_products(session: LocalSession) -> None:
    session.execute(paper.TAG_READINGS)
    session.execute(paper.EXAMPLE_17)
    query = started(session, "SELECT tagid, product_group(tagtime) OVER (RANGE UNBOUNDED PRECEDING) FROM tag_readings")
    times = [0, 1, 3, 6, 7, 20]
    readings = [{"tagid": f"t{at}", "tagtime": moment(at).isoformat() + "Z"} for at in times]
    session.push("tag_readings_source", readings)
    session.advance(instant(60))
    numbers = [1, 1, 1, 2, 2, 3]
    assert rows(session, query) == [(f"t{at}", n, instant(at)) for at, n in zip(times, numbers, strict=True)]


def test_example_18_a_thief_at_the_door(session: LocalSession) -> None:
    session.execute(paper.TAG_READINGS)
    session.execute(paper.ITEM_ALARM + paper.EXAMPLE_18)
    readings = [
        {"tagid": tag, "tagtype": kind, "tagtime": moment(at).isoformat() + "Z"} for at, tag, kind in paper.READINGS
    ]
    session.push("tag_readings_source", readings)
    session.advance(instant(59))
    taken = {tag: at for at, tag, _ in paper.READINGS}
    assert rows(session, "larceny-in-progress") == [
        (tag, moment(taken[tag]), "larceny alarm", instant(at) + 1) for tag, at in paper.ALARMS
    ]
