"""NEXMark's queries in process: the relation equals DuckDB's, at the end and at earlier instants."""

from __future__ import annotations

import random
from collections.abc import Iterator

import polars as pl
import pytest

from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.questions import EVERY_SECOND, QUESTIONS, SECONDS, Question
from benchmarks.nexmark.reference import Reference, verify
from benchmarks.nexmark.streams import STREAMS, Stream
from benchmarks.nexmark.timeline import Timeline
from dsms.testing import LocalSession

#: 50 seconds of event time: five windows of q7, and sessions of q11 that end.
EVENTS = Events(5_000, Timeline(rate=100), seed=11)
OPTIONS = 'TIMESTAMP BY "dateTime" TAGGED NONE IDLE NEVER'
PUSHES, INSTANTS = 4, 5
SECOND = 1_000


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(EVENTS)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[dict[str, object]]]:
    """The records of each stream."""
    return {name: stream.rows(EVENTS).to_dicts() for name, stream in STREAMS.items()}


def answered(text: str, streams: tuple[Stream, ...], rows: dict[str, list[dict[str, object]]]) -> LocalSession:
    """A session that has read all events; the streams were pushed in turns, in PUSHES parts each."""
    session = LocalSession(partitions=2)
    for stream in streams:
        session.execute(stream.declaration(stream.topic, "", OPTIONS))
    if EVERY_SECOND in text:
        session.execute(SECONDS)
    session.execute(f"CREATE STREAMED VIEW Answer AS {text}")
    for part in range(PUSHES):
        for stream in streams:
            session.push(f"{stream.name}Source", list(_part(rows[stream.name], part)))
    session.advance(EVENTS.end_ms + 60 * SECOND)
    return session


def _part(listed: list[dict[str, object]], part: int) -> Iterator[dict[str, object]]:
    return iter(listed[len(listed) * part // PUSHES : len(listed) * (part + 1) // PUSHES])


def check(session: LocalSession, reference: Reference, question: Question, at: int, asked: int) -> None:
    """Asserts that the session's relation at the instant `at` is the expected relation of the instant `asked`."""
    wanted = reference.answer(question, asked)
    answer = pl.DataFrame(session.relation("Answer", at), infer_schema_length=None)
    verify(answer if answer.height else wanted.clear(), wanted, f"{question.name} at {at}")


def instants(name: str) -> list[int]:
    """Some instants, different ones for each query, and the last instant."""
    chance = random.Random(name)
    first, end = EVENTS.timeline.first_ms, EVENTS.end_ms
    return [*sorted(chance.randrange(first, end) for _ in range(INSTANTS)), end]


@pytest.mark.parametrize("name", QUESTIONS)
def test_at_every_instant(name: str, reference: Reference, rows: dict[str, list[dict[str, object]]]) -> None:
    question = QUESTIONS[name]
    session = answered(question.over(), question.streams, rows)
    for at in instants(name):
        check(session, reference, question, at, at)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_second(name: str, reference: Reference, rows: dict[str, list[dict[str, object]]]) -> None:
    question = QUESTIONS[name]
    session = answered(question.over(synchronised=True), question.streams, rows)
    for at in instants(name):
        check(session, reference, question, at, at // SECOND * SECOND)
    after = EVENTS.end_ms + SECOND
    check(session, reference, question, after, after)
