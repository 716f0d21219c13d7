"""All statements printed in the papers (paper_statements.sql) can be parsed, and complete ones can be bound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.queries import parse_query
from dsms.statements.explain.plan import Explain
from dsms.statements.registry import parse
from dsms.statements.show.objects import Show
from operators.core.errors import UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

_BLOCKS = re.split(r"\n\s*\n", (Path(__file__).parent / "paper_statements.sql").read_text())[1:]
PRINTED = [tuple(block.strip().split("\n", 1)) for block in _BLOCKS]

#: The streams and relations that the papers describe in words. A relation is a keyed stream.
WORLD = """
REGISTER SOURCE CarSource (CarID INT, CarType VARCHAR, ID INT) FROM cars; CREATE STREAM S OVER CarSource KEY NULL;
CREATE STREAM S2 OVER CarSource KEY NULL; CREATE STREAM S3 OVER CarSource KEY NULL;
create STREAMED view Sync2 as select Timepoint from R(clockStr) where Timepoint mod 2 = 0;
create STREAMED view Sync3 as select Timepoint from R(clockStr) where Timepoint mod 3 = 0;
create STREAMED view Sync5 as select Timepoint from R(clockStr) where Timepoint mod 5 = 0;
REGISTER SOURCE Users (user_id INT, id INT, name VARCHAR, state VARCHAR) FROM users;
CREATE STREAM Register OVER Users KEY NULL; CREATE STREAM User OVER Users KEY id;
REGISTER SOURCE Leaving (user_id INT) FROM leaving; CREATE STREAM Deregister OVER Leaving KEY NULL;
REGISTER SOURCE Opening (item_id INT, seller_id INT, start_price INT) FROM opening;
CREATE STREAM Open OVER Opening KEY NULL;
REGISTER SOURCE Closing (item_id INT) FROM closing; CREATE STREAM Close OVER Closing KEY NULL;
REGISTER SOURCE Bids (item_id INT, bidder_id INT, bid_price INT) FROM bids;
CREATE STREAM Bid OVER Bids KEY NULL;
REGISTER SOURCE RequestSource (client_id INT, domain VARCHAR, URL VARCHAR) FROM requests;
CREATE STREAM Requests OVER RequestSource KEY NULL;
REGISTER SOURCE DomainSource (domain VARCHAR, type VARCHAR) FROM domains;
CREATE STREAM Domains OVER DomainSource KEY domain;
"""
PIPES_WORLD = """
CREATE STREAM Bid (itemID INT, bid_price REAL, bidderID INT, at BIGINT) ORDERED BY at;
CREATE STREAM ClosedAuction (itemID INT, at BIGINT) ORDERED BY at;
"""
TOPICS = (
    "cars",
    "users",
    "leaving",
    "opening",
    "closing",
    "bids",
    "requests",
    "domains",
    "port5501",
    "port34100",
    "Bid",
    "ClosedAuction",
)
#: The reasons why statements are not bound, by their headings.
UNBOUND = {
    "-- CQL section 1": '"A" not found|not found',
    "-- CQL section 6.4.1": "not found",
    "-- CQL section 6.4.2": '"Q" not found',
    "-- CQL section 7.2.1": 'column "[CL]" not found',
    "-- PIPES section 4.5": 'stream "CurrentPrice" is used by ClosingPriceStream',
}


@pytest.mark.parametrize(("heading", "sql"), PRINTED)
def test_examples_are_parsed(heading: str, sql: str) -> None:
    (statement,) = parse(sql)
    assert not isinstance(statement, Explain | Show), heading


@pytest.mark.parametrize(("heading", "sql"), PRINTED)
def test_a_parsed_query_is_written_so_that_it_parses_to_itself(heading: str, sql: str) -> None:
    (statement,) = parse(sql)
    if isinstance(statement, st.ContinuousQuery | st.Select):
        assert parse_query(statement.select.sql(dialect=Dsms)) == statement.select, heading


def _world(heading: str) -> str:
    return PIPES_WORLD if heading.startswith("-- PIPES") else WORLD


def test_each_example_is_bound_after_those_before_it() -> None:
    catalogs: dict[str, Catalog] = {}
    refusals: dict[str, str] = {}
    for heading, sql in PRINTED:
        world = _world(heading)
        before = catalogs.get(world) or _applied(world, Catalog())
        catalogs[world] = before
        if isinstance(parse(sql)[0], st.Select):
            continue
        try:
            catalogs[world] = _applied(sql, _without_view_of_the_same_name(sql, before))
        except UserError as error:
            refusals[heading] = str(error)
    assert {heading: refusals[heading] for heading in refusals if heading not in UNBOUND} == {}
    for heading, message in UNBOUND.items():
        assert re.search(message, refusals[heading]), (heading, refusals[heading])


def _applied(sql: str, catalog: Catalog) -> Catalog:
    return apply_all(sql, catalog, FakeEnvironment({name: {0: 0} for name in TOPICS}))[0]


def _without_view_of_the_same_name(sql: str, catalog: Catalog) -> Catalog:
    """The paper defines HotRooms₁ and FiveUnitsWindow twice, and uses Sync₂ before it defines it."""
    (statement,) = parse(sql)
    name = getattr(getattr(statement, "name", None), "text", "")
    again = name in ("HotRooms1", "FiveUnitsWindow", "Sync2") and catalog.get(name) is not None
    return _applied(f"DROP VIEW {name} CASCADE", catalog) if again else catalog
