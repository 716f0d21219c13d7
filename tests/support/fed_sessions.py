"""Local sessions for one query each: its plan, or its answers over records that are pushed in pieces of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsms.testing import LocalSession


def explained(declarations: str, query: str) -> str:
    """The output of EXPLAIN for a query over declared sources and streams."""
    session = LocalSession()
    session.execute(declarations)
    session.execute(f"CREATE QUERY Q AS {query}")
    return session.explain("Q")


def fed(
    statements: str, records: Sequence[Mapping[str, object]], end: int, partitions: int, batch: int | None,
    sizes: list[int],
) -> LocalSession:  # fmt: skip
    """A session to which the records of source T were pushed, and that was advanced to the instant `end`.

    The pieces have the given sizes, the last size first; the remaining records are pushed at once.
    """
    session = LocalSession(partitions, batch)
    session.execute(statements)
    while records:
        size = sizes.pop() if sizes else len(records)
        session.push("T", records[:size])
        records = records[size:]
    session.advance(end)
    return session
