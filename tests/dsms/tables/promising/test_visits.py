"""SELECTs with a preference: over the whole input they give DuckDB's answer, and otherwise the answer over the part
that they report as seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.limits import Limits
from dsms.model.statements import Select
from dsms.statements.registry import parse
from dsms.tables.one_time import answer
from dsms.tables.one_time_query import one_time_query_of
from dsms.tables.promising.visits import Coverage, promising_select
from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support.session_rows import relations_of
from tests.support.strategies import examples

SOURCES = """REGISTER SOURCE Bids (auction INT, price INT, channel TEXT, at INT) FROM bid;
CREATE STREAM B OVER Bids KEY NULL;
REGISTER SOURCE Auctions (auction INT, seller TEXT) FROM auction; CREATE STREAM A OVER Auctions KEY NULL;
CREATE SUMMARY BidsByAuction ON B (auction) WITH GRANULARITY 100 AND COLLAPSE(4, 3) AND BUCKETS 8;
CREATE SUMMARY AuctionsById ON A (auction) WITH GRANULARITY 100 AND COLLAPSE(4, 3) AND BUCKETS 8;
CREATE SUMMARY BidsByChannel ON B (channel) WITH GRANULARITY 50 AND COLLAPSE(2, 2);
"""
#: At this instant, all zones with earlier tuples are closed.
END = 1_000
Rows = list[dict[str, object]]


def session(bids: Rows, auctions: Rows) -> LocalSession:
    """A session with summaries of bids and auctions, in which all zones are closed and none is forgotten."""
    made = LocalSession()
    made.execute(SOURCES)
    for name, rows in (("Bids", bids), ("Auctions", auctions)):
        made.push(name, sorted(rows, key=lambda row: row["ts"]))
    made.advance(END)
    return made


def bids(count: int, seed: int) -> Rows:
    """Bids, most of which are for a few auctions."""
    rng = np.random.default_rng(seed)
    values = rng.zipf(1.4, count).clip(max=500)
    return [
        {
            "auction": int(value),
            "price": int(at) % 97,
            "channel": f"c{at % 5}",
            "ts": int(at) * (END - 100) // count,
            "at": int(at) * (END - 100) // count,
        }
        for at, value in enumerate(values)
    ]


@pytest.fixture(scope="module")
def many() -> LocalSession:
    """A session with 20 000 bids and 2 000 auctions."""
    auctions = [{"auction": row["auction"], "seller": "s", "ts": row["ts"]} for row in bids(2_000, 2)]
    return session(bids(20_000, 1), auctions)


def promised(made: LocalSession, query: str, clock: Callable[[], float]) -> tuple[list[tuple], dict[str, Coverage]]:
    """The answer to a query with this clock, and the part of each stream that it has seen."""
    (statement,) = parse(query, Limits())
    assert isinstance(statement, Select)
    assert statement.preference is not None
    asked = promising_select(
        statement.select, statement.preference, one_time_query_of(statement.select, made.catalog), made.catalog
    )
    (_, rows), seen = asked.answered(relations_of(made), END - 1, answer, clock)
    return list(rows), {each.stream: each for each in seen}


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that advances by this number of seconds each time that it is read."""
    return itertools.count(0.0, seconds).__next__


QUERIES = (
    "SELECT auction, price FROM B WHERE price < 20",
    "SELECT channel, COUNT(*) AS n, SUM(price) AS total FROM B GROUP BY channel",
    "SELECT b.auction, b.price, a.seller FROM B b, A a WHERE b.auction = a.auction AND b.price > 3",
    "SELECT a.seller, AVG(b.price) AS mean FROM B b JOIN A a ON b.auction = a.auction GROUP BY a.seller",
    "SELECT DISTINCT channel FROM B WHERE auction IN (1, 2)",
)
PREFERENCES = (
    "DESC COUNT(auction)",
    "ASC COUNT(auction) * auction",
    "WEIGHTED SUMMARY.ESTIMATE.COUNT(auction) FADE FACTOR 0.5",
)
BID = st.builds(
    lambda auction, price, ts: {"auction": auction, "price": price, "channel": f"c{price % 3}", "ts": ts, "at": ts},
    st.integers(1, 5), st.integers(0, 30), st.integers(0, 850),
)  # fmt: skip
AUCTION = st.builds(
    lambda auction, ts: {"auction": auction, "seller": f"s{auction % 2}", "ts": ts},
    st.integers(1, 5),
    st.integers(0, 850),
)


@settings(max_examples=examples(10))
@given(st.lists(BID, max_size=40), st.lists(AUCTION, max_size=15), st.sampled_from(PREFERENCES), st.booleans())
def test_without_a_budget_the_answer_is_that_over_everything(some_bids, auctions, preference, hurried) -> None:
    made = session(some_bids, auctions)
    database = duckdb.connect()
    for name, rows in (("B", some_bids), ("A", auctions)):
        kinds = (
            {"auction": pl.Int32, "price": pl.Int32, "channel": pl.String}
            if name == "B"
            else {"auction": pl.Int32, "seller": pl.String}
        )
        database.register(
            name,
            pl.DataFrame([[row[column] for column in kinds] for row in rows], schema=kinds, orient="row").to_arrow(),
        )
    for query in QUERIES:
        both = " a " in query
        clause = preference.replace("auction", "b.auction") if both else preference
        clause = f"{clause}, COUNT(a.auction)" if both and "FADE" not in clause else clause
        budget = " BUDGET 1 HOUR" if hurried else ""
        rows = made.execute(f"{query} WITH PREFERENCE {clause}{budget}")
        wanted = database.sql(query).fetchall()
        assert sorted(tuple(row.values()) for row in rows) == sorted(wanted)


@pytest.mark.parametrize("preference", PREFERENCES)
def test_select_reads_the_part_that_fits_the_budget(many, preference) -> None:
    """Each reading of the clock takes a second: a part takes one second, and the next part is expected to take two."""
    sizes = []
    for budget in (1, 5, 9, 1_000):
        rows, seen = promised(
            many,
            f"SELECT COUNT(*), MIN(price) FROM B WITH PREFERENCE {preference} BUDGET {budget} SECONDS",
            ticking(1.0),
        )
        assert rows[0][0] == seen["B"].tuples
        sizes.append(seen["B"].tuples)
    assert 1_000 <= sizes[0] < sizes[1] < sizes[2] < sizes[3] == 20_000


def repeated(made: LocalSession, preference: str) -> float:
    """How often the value of a tuple occurs among all tuples, averaged over the tuples of the first part."""
    counts = {
        row["auction"]: row["n"]
        for row in made.execute("SELECT auction, COUNT(*) AS n FROM B GROUP BY auction WITH PREFERENCE COUNT(auction)")
    }
    rows, _ = promised(made, f"SELECT auction FROM B WITH PREFERENCE {preference} BUDGET 1 SECOND", ticking(1.0))
    return float(np.mean([counts[auction] for (auction,) in rows]))


def test_frequent_values_come_first_or_last(many) -> None:
    desc, weighted, asc = (repeated(many, f"{word} COUNT(auction)") for word in ("DESC", "WEIGHTED", "ASC"))
    assert desc > 1.1 * weighted
    assert asc < 0.1 * weighted


@pytest.mark.parametrize("seconds", [1, 5, 9])
def test_a_weighted_part_has_frequent_values_as_often_as_the_stream(many, seconds) -> None:
    """Regions with equal chances: a tuple is in the part with the same chance, however large its region is. A chance by
    size, of regions that are taken as wholes, would give 0.93, 0.90 and 0.84."""
    query = f"SELECT auction FROM B WITH PREFERENCE WEIGHTED COUNT(auction) BUDGET {seconds} SECONDS"
    rows, _ = promised(many, query, ticking(1.0))
    stream = [row["auction"] <= 4 for row in bids(20_000, 1)]
    assert np.mean([auction <= 4 for (auction,) in rows]) == pytest.approx(np.mean(stream), abs=0.06)


def test_the_notice_says_what_no_region_has() -> None:
    made = session(bids(5_000, 1), [])
    made.execute("CREATE SUMMARY Open ON B (price) WITH GRANULARITY 400 AND COLLAPSE(4, 3) AND BUCKETS 1")
    query = "SELECT COUNT(*) AS n FROM B WITH PREFERENCE COUNT(price)"
    (result,) = made.run(query)
    ((counted,),) = result.rows
    regions = made.execute("SELECT MIN(zone_from) AS first, MAX(zone_to) AS beyond FROM Open")[0]
    inside = sum(regions["first"] <= row["ts"] < regions["beyond"] for row in bids(5_000, 1))
    assert 0 < counted == inside
    assert result.notices[0].startswith(f'"B": {inside} of {inside} tuples in ')
    left_out = f"no region has, and so left out are, instants before {regions['first']} and from {regions['beyond']} on"
    assert result.notices[0].endswith(f" regions; {left_out}")


def test_the_notice_counts_only_tuples_of_the_window() -> None:
    made = session(bids(5_000, 1), [])
    (result,) = made.run("SELECT COUNT(*) AS n FROM B WITH PREFERENCE COUNT(auction) WINDOW 333")
    inside = sum(row["ts"] > END - 1 - 333 for row in bids(5_000, 1))
    assert result.rows == ((inside,),)
    assert result.notices[0].startswith(f'"B": {inside} of {inside} tuples in ')
    assert f"instants before {END - 333} and from " in result.notices[0]


def test_without_a_closed_zone_the_notice_says_that_everything_is_left_out() -> None:
    made = LocalSession()
    made.execute(SOURCES)
    made.push("Bids", [{"auction": 1, "price": 2, "channel": "c", "at": 3, "ts": 3}])
    (result,) = made.run("SELECT COUNT(*) AS n FROM B WITH PREFERENCE COUNT(auction)")
    assert result.rows == ((0,),)
    assert result.notices == ('"B": no region is complete yet, so all of the stream is left out',)


def test_large_products_come_first(many) -> None:
    means = []
    for preference in ("DESC COUNT(auction) * auction", "WEIGHTED COUNT(auction)"):
        rows, _ = promised(
            many, f"SELECT SUM(auction), COUNT(*) FROM B WITH PREFERENCE {preference} BUDGET 1 SECOND", ticking(1.0)
        )
        means.append(rows[0][0] / rows[0][1])
    assert means[0] > 2 * means[1]


def test_regions_with_the_value_that_is_asked_for_come_first(many) -> None:
    exact = many.execute("SELECT COUNT(*) AS n FROM B WHERE auction = 3 WITH PREFERENCE COUNT(auction)")[0]["n"]
    rows, seen = promised(
        many, "SELECT COUNT(*) FROM B WHERE auction = 3 WITH PREFERENCE COUNT(auction) BUDGET 7 SECONDS", ticking(1.0)
    )
    assert seen["B"].tuples < 5_000
    assert rows[0][0] > 2 * exact * seen["B"].tuples / 20_000


def test_a_join_meets_more_than_a_random_part_of_its_input_would(many) -> None:
    counts = []
    for word in ("DESC", "WEIGHTED"):
        query = "SELECT COUNT(*) FROM B b, A a WHERE b.auction = a.auction WITH PREFERENCE "
        query += f"{word} COUNT(b.auction), COUNT(a.auction)"
        rows, seen = promised(many, f"{query} BUDGET 7 SECONDS", ticking(1.0))
        counts.append(rows[0][0])
    assert counts[0] > 1.5 * counts[1]


def test_fade_factor_prefers_recent_tuples(many) -> None:
    ages = []
    for fade in ("", "FADE FACTOR 0.1"):
        rows, _ = promised(
            many,
            f"SELECT AVG(at) FROM B WITH PREFERENCE WEIGHTED COUNT(auction) {fade} BUDGET 1 SECOND",
            ticking(1.0),
        )
        ages.append(rows[0][0])
    assert ages[1] > ages[0] + 100


def test_window_reads_only_the_last_instants(many) -> None:
    rows, seen = promised(
        many, "SELECT MIN(at), COUNT(*) FROM B WITH PREFERENCE COUNT(auction) WINDOW 250", ticking(1.0)
    )
    inside = [row for row in bids(20_000, 1) if row["ts"] > END - 1 - 250]
    assert rows == [(min(row["ts"] for row in inside), len(inside))]
    assert seen["B"].regions == seen["B"].of_regions


def test_the_column_of_the_estimate_chooses_the_summary(many) -> None:
    rows = many.execute(
        "SELECT channel, COUNT(*) AS n FROM B GROUP BY channel ORDER BY 1 WITH PREFERENCE COUNT(channel)"
    )
    assert sum(row["n"] for row in rows) < 20_000  # this summary has forgotten the first tuples
    assert [row["channel"] for row in rows] == [f"c{number}" for number in range(5)]


REFUSED = {
    "SELECT price FROM B WITH PREFERENCE COUNT(price)": 'there is no summary of "B" by "price"',
    "SELECT 1 FROM B b, A a WITH PREFERENCE COUNT(auction)": "ambiguous",
    "SELECT 1 FROM B b WITH PREFERENCE COUNT(c.auction)": '"c" is ambiguous or not in FROM',
    "SELECT 1 FROM B b WITH PREFERENCE COUNT(b.auction), COUNT(b.channel)": "two estimates",
    "SELECT 1 FROM B b WITH PREFERENCE COUNT(b.channel) * b.channel": "is not numeric",
    "SELECT 1 FROM B b WITH PREFERENCE COUNT(b.auction) * b.price": "can only be multiplied by the same column",
    "SELECT 1 FROM B WITH PREFERENCE COUNT(auction) FADE FACTOR 2": "above 0 and up to 1",
    "SELECT 1 FROM B WITH PREFERENCE COUNT(auction) BUDGET 2 MONTHS": "is not a length of time",
    "SELECT 1 FROM B WITH PREFERENCE COUNT(auction) LIMIT 3": 'unknown clause "LIMIT"',
    "SELECT STREAMED price FROM B WITH PREFERENCE COUNT(auction)": "continuous",
    "SELECT price FROM B [Range 5] WITH PREFERENCE COUNT(auction)": "continuous",
    "CREATE SUMMARY s ON B (auction) WITH GRANULARITY 100 AND COLLAPSE(1, 3)": "the rate must be an integer from 2",
    "CREATE SUMMARY s ON B (nothing) WITH GRANULARITY 100 AND COLLAPSE(2, 3)": "nothing",
    "CREATE SUMMARY s ON BidsByAuction (bucket) WITH GRANULARITY 100 AND COLLAPSE(2, 3)": "takes an append-only stream",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_refused(many, statement) -> None:
    with pytest.raises(SqlError) as raised:
        many.execute(statement)
    assert REFUSED[statement] in str(raised.value)


def test_a_summary_is_replaced() -> None:
    made = session(bids(500, 3), [])
    made.execute("CREATE OR REPLACE SUMMARY BidsByAuction ON B (auction) WITH GRANULARITY 200 AND COLLAPSE(2, 3)")
    assert "granularity 200" in str(made.execute("EXPLAIN BidsByAuction"))
    made.push("Bids", [{"auction": 1, "price": 1, "channel": "c", "at": END, "ts": END}])
    made.advance(2 * END)
    (counted,) = made.execute("SELECT COUNT(*) AS n FROM B WITH PREFERENCE COUNT(auction)")
    (held,) = made.execute("SELECT SUM(tuples) AS n FROM BidsByAuction WHERE granularity = 0")
    assert counted == held


def test_a_summary_is_dropped_by_its_own_name() -> None:
    made = session([], [])
    made.execute("DROP SUMMARY BidsByChannel")
    with pytest.raises(SqlError, match="no summary"):
        made.execute("SELECT 1 FROM B WITH PREFERENCE COUNT(channel)")


def test_query_over_a_summary_sees_removed_cells(many) -> None:
    many.execute(
        "CREATE VIEW Counted AS SELECT granularity, COUNT(*) AS cells, SUM(tuples) AS tuples FROM BidsByAuction "
        "GROUP BY granularity"
    )
    shown = many.execute("SELECT granularity, COUNT(*) AS cells, SUM(tuples) AS tuples FROM BidsByAuction GROUP BY 1")
    assert sorted(map(str, many.execute("SELECT * FROM Counted"))) == sorted(map(str, shown))
    many.execute("DROP VIEW Counted")


@pytest.mark.parametrize("kind", ["INT[]", "BYTES"])
def test_values_that_cannot_be_counted_have_no_summary(kind) -> None:
    made = LocalSession()
    made.execute(f"CREATE STREAM S (v {kind}, at BIGINT) ORDER BY at")
    with pytest.raises(SqlError, match="has a type that cannot be summarised"):
        made.execute("CREATE SUMMARY Counts ON S (v) WITH GRANULARITY 10 AND COLLAPSE(2, 2)")


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DOUBLE", "DECIMAL(9, 2)", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP"])
def test_values_of_all_other_types(kind) -> None:
    made = LocalSession()
    made.execute(f"CREATE STREAM S (v {kind}, at BIGINT) ORDER BY at")
    made.execute("CREATE SUMMARY Counts ON S (v) WITH GRANULARITY 10 AND COLLAPSE(2, 2)")
    values = {"BOOLEAN": [True, False, None], "DATE": ["2026-01-02", None, "2026-01-03"]}.get(kind, ["1", None, "7"])
    values = {"INT": [1, None, -7], "BIGINT": [2**62, None, -1], "DOUBLE": [0.5, None, -1.0]}.get(kind, values)
    values = ["2026-01-02T03:04:05Z", None, "2026-01-02T03:04:06Z"] if kind == "TIMESTAMP" else values
    made.push("S_source", [{"v": values[at % 3], "at": at} for at in range(-30, 30)])
    made.advance(30)
    (counted,) = made.execute("SELECT COUNT(*) AS n, COUNT(v) AS of_values FROM S WITH PREFERENCE COUNT(v) WINDOW 20")
    known = sum(values[at % 3] is not None for at in range(10, 29))  # the zone of 29 is not closed yet
    assert counted == {"n": 19, "of_values": known}


def test_two_summaries_alike_are_one() -> None:
    made = session([], [])
    made.execute("CREATE SUMMARY Again ON B (auction) WITH GRANULARITY 100 AND COLLAPSE(4, 3) AND BUCKETS 8")
    plan = str(made.execute("EXPLAIN SELECT STREAMED tuples FROM Again"))
    assert "shared with BidsByAuction, Again: Summarize" in plan
