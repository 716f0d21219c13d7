"""REPLAY of records of a source that has several versions: no query gets a record twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connectors.kafka.logs.dead_letters import DeadLetter, ReplayMark
from dsms.coordinator.results.replays import select_dead_letters
from dsms.model.objects import Source
from dsms.statements.dml.replay import Correction

SOURCE = Source(name="s", id="o9", sql="", columns=(), topic="t", earlier_ids=("o1", "o5"))


class Letters:
    """A topic of dead letters in two pieces, without marks of replayed records."""

    def __init__(self, *letters: tuple[int, str]) -> None:
        self._letters = [DeadLetter("t", 0, offset, "why", None, b"x", source) for offset, source in letters]

    def replayed(self) -> Iterator[set[ReplayMark]]:
        yield set()

    def dead_letters(self) -> Iterator[list[DeadLetter]]:
        yield self._letters[:2]
        yield self._letters[2:]


@pytest.mark.parametrize(
    ("read", "replayed", "accepted"),
    [
        ((), [1, 3], 1),
        (("o5",), [1], 2),
        (("o9",), [1, 3], 1),
        (("o5", "o9"), [1], 2),
    ],
)
def test_all_versions_that_queries_read_or_will_read_must_have_refused_the_record(
    read: tuple[str, ...], replayed: list[int], accepted: int
) -> None:
    log = Letters((1, "o5"), (2, "o5"), (1, "o9"), (3, "o9"), (4, "o7"))
    found = select_dead_letters(log, SOURCE, Correction(), threading.Event(), frozenset(read))  # type: ignore[arg-type]
    assert sorted(letter.offset for letter, _ in found.chosen) == replayed
    assert (found.accepted, found.earlier) == (accepted, 1)
    assert any("would get them twice" in notice for notice in found.notices()) == bool(accepted)


def test_a_record_that_the_current_columns_accept_is_not_replayed_although_no_query_reads_them() -> None:
    """`{"k": 1, "w": "x"}` was refused for `w INT`, which was dropped then: later queries get the record as it is."""
    source = Source(name="s", id="o5", sql="", columns=(), topic="t", earlier_ids=("o1",))
    log = Letters((1, "o1"))
    found = select_dead_letters(log, source, Correction(), threading.Event(), frozenset(["o1"]))  # type: ignore[arg-type]
    assert (found.chosen, found.accepted) == ([], 1)
    assert any("if no query reads the current columns, create one" in notice for notice in found.notices())
