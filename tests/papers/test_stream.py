"""The examples of section 2.1 of "Query processing, resource management, and approximation in a data stream management
system" (STREAM). The paper shows no data: the requests are ours, the results are worked out by hand.

The results of the first two are relations that lose rows, so these are in a CREATE VIEW, or have the outermost Istream
that section 2.2 describes. The third is run with and without its Sample.
"""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from tests.papers.tables import CUTS

HOUR = 3_600_000
STANFORD = "stanford.edu"
STREAMS = """
REGISTER SOURCE RequestSource (client_id INT, domain VARCHAR, URL VARCHAR) FROM requests;
CREATE STREAM Requests OVER RequestSource KEY NULL;
REGISTER SOURCE DomainSource (domain VARCHAR, type VARCHAR) FROM domains;
CREATE STREAM Domains OVER DomainSource KEY domain;
"""
Request = tuple[int, int, str, str]


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(STREAMS)
    return session


def requests(session: LocalSession, *rows: Request) -> None:
    """Pushes requests: (hour, client, domain, URL)."""
    names = ("client_id", "domain", "URL")
    session.push("RequestSource", [dict(zip(names, row, strict=True)) | {"ts": at * HOUR} for at, *row in rows])


def counts(session: LocalSession, name: str, *hours: float) -> list[object]:
    return [value for at in hours for row in session.relation(name, at=int(at * HOUR)) for value in row.values()]


FIRST = """Select Count(*)
From Requests S [Range 1 Day Preceding]
Where S.domain = 'stanford.edu'"""


def test_first_example_requests_of_the_last_day(session: LocalSession) -> None:
    session.execute(f"CREATE VIEW N AS {FIRST}")
    session.execute(f"CREATE QUERY I AS {FIRST.replace('Count(*)', 'Istream(Count(*))')}")
    requests(session, (1, 1, STANFORD, "/a"), (2, 2, "mit.edu", "/b"), (5, 1, STANFORD, "/c"), (30, 3, STANFORD, "/d"))
    session.advance(100 * HOUR)
    assert counts(session, "N", 0, 1, 2, 5, 25, 25.5, 29, 29.5, 30, 54, 54.5) == [0, 1, 1, 2, 2, 1, 1, 0, 1, 1, 0]
    # "a new value each time the count changes"; the first value is that of the empty stream
    changes = [(ts, value) for _, row, ts in session.changes("I") for value in row.values()]
    assert changes[1:] == [
        (1 * HOUR, 1), (5 * HOUR, 2), (25 * HOUR + 1, 1), (29 * HOUR + 1, 0), (30 * HOUR, 1), (54 * HOUR + 1, 0),
    ]  # fmt: skip


SECOND = """Select Count(*)
From Requests S
[Partition By S.client_id
Rows 10 Preceding
Where S.domain = 'stanford.edu']
Where S.URL Like 'http://cs.stanford.edu/%'"""
CS, LAW = "http://cs.stanford.edu/x", "http://law.stanford.edu/y"


def test_second_example_a_predicate_before_and_one_after_the_window(session: LocalSession) -> None:
    """Only requests to the domain are among a client's ten; of these, requests to the department are counted."""
    session.execute(f"CREATE VIEW N AS {SECOND}")
    requests(
        session,
        *[(at, 1, STANFORD, CS) for at in (1, 2, 3)],
        *[(4, 2, STANFORD, CS), (5, 2, STANFORD, LAW)],
        *[(at, 1, STANFORD, LAW) for at in range(6, 13)],
        # client 1 has ten requests at 12; these others do not push any of them out
        *[(13, 1, "mit.edu", CS), (14, 2, STANFORD, CS)],
        *[(15, 1, STANFORD, LAW), (16, 1, STANFORD, CS), (17, 1, STANFORD, LAW)],
    )
    session.advance(20 * HOUR)
    assert counts(session, "N", 0, 1, 3, 4, 5, 12, 13, 14, 15, 16, 17) == [0, 1, 3, 4, 4, 4, 4, 5, 4, 4, 3]


THIRD = """Select T.URL
From
(Select client_id, URL
From Requests S, Domains R
Where S.domain = R.domain
And R.type = 'commerce') T Sample(10)
Where T.client_id Between 1 And 1000"""


@pytest.mark.parametrize("output", ["", "Istream"])
def test_third_example_without_its_sample(session: LocalSession, output: str) -> None:
    """The URLs of requests to commerce sites, as they enter. The earlier requests of a site enter when it becomes a
    commerce site (the window is Unbounded)."""
    query = THIRD.replace(" Sample(10)", "").replace("T.URL", "Istream(T.URL)" if output else "T.URL")
    session.execute(f"CREATE QUERY Q AS {query}")
    names = ("domain", "type")
    session.push("DomainSource", [{**dict(zip(names, ("shop.com", "commerce"), strict=True)), "ts": 0}])
    session.push("DomainSource", [{**dict(zip(names, ("news.com", "press"), strict=True)), "ts": 0}])
    session.push("DomainSource", [{**dict(zip(names, ("news.com", "commerce"), strict=True)), "ts": 6 * HOUR}])
    requests(
        session,
        (1, 1, "shop.com", "s1"), (2, 1001, "shop.com", "s2"), (3, 1000, "news.com", "n1"), (4, 7, "shop.com", "s3"),
        (5, 7, "other.com", "o1"), (7, 8, "news.com", "n2"),
    )  # fmt: skip
    session.advance(20 * HOUR)
    changes = [(op, row["URL"], ts // HOUR) for op, row, ts in session.changes("Q")]
    assert changes == [("+", "s1", 1), ("+", "s3", 4), ("+", "n1", 6), ("+", "n2", 7)]


@pytest.mark.parametrize(("percent", "numbers"), [("100", range(1, 13)), ("50", [4, 5, 6, 8, 11, 12]), ("10", [11])])
def test_third_example_with_its_sample(session: LocalSession, percent: str, numbers: list[int]) -> None:
    """The join is sampled: of the rows that derive from one record, all are kept or none. Its offset decides
    whether a record is kept (`tests/dsms/testing/test_sample.py`), so this is known for the twelve requests."""
    session.execute(f"CREATE QUERY Q AS {THIRD.replace('10', percent, 1)}")
    session.push("DomainSource", [{"domain": "shop.com", "type": "commerce", "ts": 0}])
    requests(session, *[(at, at, "shop.com", f"s{at}") for at in range(1, 13)])
    session.advance(20 * HOUR)
    assert [row["URL"] for _, row, _ in session.changes("Q")] == [f"s{at}" for at in numbers]
