"""`simulate` accepts queries whose results depend on the logs, tells the story of a failure, and explains errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dsms.simulation.history import History
from dsms.simulation.run import Outcome, run
from dsms.simulation.world import World
from dsms.testing import simulate
from operators.core.errors import DsmsError

_STATEMENTS = """
    REGISTER SOURCE readings (room STRING, t DOUBLE, at TIMESTAMP) FROM readings PARTITIONS 2;
    CREATE STREAM rooms OVER readings KEY room;
    CREATE STREAMED VIEW hot AS SELECT room, t FROM R(rooms) WHERE t > 80"""
_TODAY = datetime(2026, 11, 29, tzinfo=UTC)
_WARM, _NO_INSTANT = {"room": "a", "t": "warm", "ts": 1}, {"room": "a", "t": 1.5}
_CSV = "REGISTER SOURCE s (a INT) FROM t FORMAT CSV"
_FEED = {
    "readings": [
        {"room": "a", "t": 105.5, "at": _TODAY.replace(tzinfo=None), "ts": _TODAY},
        {"room": "b", "t": float("nan"), "at": None, "ts": _TODAY},
        {"room": "a", "op": "-", "ts": _TODAY},
    ]
}


@pytest.mark.parametrize("faults", [True, False])
def test_histories_that_publish_what_the_logs_determine(faults: bool) -> None:
    summary = simulate(_STATEMENTS, _FEED, seeds=[1, 2, 3], faults=faults)
    assert summary.histories == 3
    assert bool(summary.faults) == faults
    assert summary.seconds > 60


def test_a_failure_is_told_as_the_story_of_a_smaller_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(history: History, also: Callable[[World], Iterator[str]]) -> Outcome:
        outcome = run(history, also)
        lost = any(b"105.5" in (each.value or b"") for each in history.publications)
        return replace(outcome, problems=("a record is lost",) if lost else ())

    monkeypatch.setattr("dsms.testing.histories.run", wrong)
    with pytest.raises(AssertionError) as failure:
        simulate(_STATEMENTS, _FEED, seeds=[3])
    problem, smaller = str(failure.value).split("in a smaller history:")
    assert problem == "seed 3: a record is lost\n"
    assert smaller.count(" at instant ") == 1
    assert "105.5" in smaller
    assert "FAULT" not in smaller


@pytest.mark.parametrize(
    ("statements", "feed", "message"),
    [
        (_STATEMENTS, {"nothing": []}, '"nothing" not found'),
        (_STATEMENTS, {"rooms": []}, '"rooms" is not a source; have: readings'),
        (_STATEMENTS, {"readings": [_WARM]}, 'record 0 of source "readings" does not fit: column "t"'),
        (_STATEMENTS, {"readings": [_NO_INSTANT]}, 'record 0 of source "readings" does not fit'),
        (_STATEMENTS, {"readings": ["a"]}, "record 1 of the push is not a dict"),
        (_CSV, {"s": []}, 'source "s" cannot be simulated; the feed is for sources in JSON'),
        ("CREATE TABLE x (a INT)", {}, "tables cannot be simulated; use a source"),
        ("CREATE VIEW v AS SELECT a FROM s", {}, '"s" not found'),
    ],
)  # fmt: skip
def test_wrong_input(statements: str, feed: dict, message: str) -> None:
    with pytest.raises(DsmsError) as error:
        simulate(statements, feed)
    assert message in str(error.value)
