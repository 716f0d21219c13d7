"""Random histories: records are pushed, time is advanced, and queries are created and dropped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from dsms.testing import LocalSession

SOURCES = """
REGISTER SOURCE T (k VARCHAR NOT NULL, v BIGINT) FROM t SLACK 2; CREATE STREAM S OVER T KEY k;
REGISTER SOURCE E (k VARCHAR NOT NULL, n BIGINT, i INT) FROM e SLACK 1; CREATE STREAM A OVER E KEY NULL;
CREATE STREAMED VIEW Sync2 AS SELECT Timepoint FROM clockStr WHERE Timepoint MOD 2 = 0;
CREATE STREAMED VIEW Sync4 AS SELECT Timepoint FROM clockStr WHERE Timepoint MOD 4 = 0;
"""
#: The published changes and the dead letters of a query.
Published = list[list[object]]
END = 20


@dataclass(frozen=True)
class Push:
    """A record of source T or E; `n` is the column v of T or n of E."""

    source: str
    k: str
    n: int | None
    ts: int
    i: int | None = None

    @property
    def row(self) -> dict[str, object]:
        """The record."""
        named = {"v": self.n} if self.source == "T" else {"n": self.n, "i": self.i}
        return {"k": self.k, **named, "ts": self.ts}


_NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
PUSHES = st.builds(Push, st.sampled_from("TE"), st.sampled_from("abc"), _NUMBERS, st.integers(0, 9), _NUMBERS)


def histories(choices: Iterable[Hashable]) -> st.SearchStrategy[list[object]]:
    """Steps for `play`: pushes, advances, and the creation and dropping of queries of these kinds."""
    kinds = st.sampled_from(list(choices))
    step = st.one_of(
        PUSHES,
        st.builds(lambda ts: ("advance", ts), st.integers(0, 12)),
        st.builds(lambda kind: ("create", kind), kinds),
        st.builds(lambda kind: ("drop", kind), kinds),
    )
    return st.lists(step, max_size=24)


def play(
    session: LocalSession, steps: Iterable[object], statement: Callable[[Hashable, str], str], only: str | None = None
) -> dict[str, Published]:
    """By name, what each query had published when it was dropped, or at the end.

    `statement(kind, name)` gives the statement that creates a query; the name contains the number of the step. With
    `only`, just the query of this name is created.
    """
    published: dict[str, Published] = {}
    running: dict[Hashable, str] = {}
    for number, step in enumerate([*steps, ("advance", END)]):
        match step:
            case Push():
                session.push(step.source, [step.row])
            case ("advance", instant):
                session.advance(instant)
            case ("create", kind) if kind not in running and only in (None, f"Q{number}"):
                running[kind] = f"Q{number}"
                session.execute(statement(kind, f"Q{number}"))
            case ("drop", kind) if kind in running:
                name = running.pop(kind)
                published[name] = _published(session, name)
                session.execute(f"DROP VIEW {name}")
    return published | {name: _published(session, name) for name in running.values()}


def _published(session: LocalSession, name: str) -> Published:
    letters = [*session.dead_letters("T"), *session.dead_letters("E")]
    return [
        session.changes(name),
        [(letter["reason"], letter["record"]) for letter in letters if letter["query"] == name],
    ]
