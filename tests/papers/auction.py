"""The running example of "An Abstract Semantics and Concrete Language for Continuous Queries": an online auction."""

from __future__ import annotations

from dsms.testing import LocalSession
from operators.core.delta import BEGINNING

#: Section 4.1: five streams. Instants are milliseconds.
STREAMS = """
REGISTER SOURCE Registering (user_id INT, name VARCHAR, state VARCHAR) FROM registering;
REGISTER SOURCE Leaving (user_id INT) FROM leaving;
REGISTER SOURCE Opening (item_id INT, seller_id INT, start_price INT) FROM opening;
REGISTER SOURCE Closing (item_id INT) FROM closing;
REGISTER SOURCE Bidding (item_id INT, bidder_id INT, bid_price INT) FROM bidding;
CREATE STREAM Register OVER Registering KEY NULL;
CREATE STREAM Deregister OVER Leaving KEY NULL;
CREATE STREAM Open OVER Opening KEY NULL;
CREATE STREAM Close OVER Closing KEY NULL;
CREATE STREAM Bid OVER Bidding KEY NULL;
"""
MINUTE = 60_000


def auction(cut: tuple[int, int | None], *statements: str) -> LocalSession:
    """A session with the five streams, after some statements."""
    session = LocalSession(*cut)
    for statement in (STREAMS, *statements):
        session.execute(statement)
    return session


def happens(session: LocalSession, source: str, *events: tuple[int | str, ...]) -> None:
    """Appends events: the minute, then the columns."""
    names = session.catalog.find(source).schema.names
    session.push(source, [dict(zip(names, row, strict=True)) | {"ts": at * MINUTE} for at, *row in events])


def minutes(session: LocalSession, name: str) -> list[str]:
    """The changes that a query published, by instant: `60 +(100, 7)`; `60.001` is one millisecond after minute 60.

    The rows that SQL gives for empty relations are valid from the beginning of time: `start`.
    """
    ordered = sorted(session.changes(name), key=lambda change: (change[2], change[0], repr(change[1])))
    return [f"{_minute(ts)} {op}({', '.join(map(str, row.values()))})" for op, row, ts in ordered]


def _minute(ts: int) -> str:
    if ts == BEGINNING:
        return "start"
    minute, rest = divmod(ts, MINUTE)
    return f"{minute}.{rest:03}" if rest else str(minute)
