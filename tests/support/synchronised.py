"""Queries over synchronised rows in sessions of their own: their plans, and their answers over records in any cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsms.testing import LocalSession


def planned(source: str, query: str) -> str:
    """What EXPLAIN tells of a query over declared streams."""
    session = LocalSession()
    session.execute(source)
    session.execute(f"CREATE QUERY Q AS {query}")
    return session.explain("Q")


def pushed(
    statements: str, records: Sequence[Mapping[str, object]], end: int, partitions: int, batch: int | None,
    pieces: list[int],
) -> LocalSession:  # fmt: skip
    """A session that was given the records of T in pieces of some sizes, the rest at once, up to an instant."""
    session = LocalSession(partitions, batch)
    session.execute(statements)
    while records:
        size = pieces.pop() if pieces else len(records)
        session.push("T", records[:size])
        records = records[size:]
    session.advance(end)
    return session
