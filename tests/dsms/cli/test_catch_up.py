"""`dsms catch-up`: it ends when all queries have caught up, and names queries that never will."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.progress import Progress

from dsms.cli.catch_up import follow
from operators.core.errors import ExternalError, UserError


def query(name: str, read: int | None, unread: int = 0, state: str = "running", kind: str = "view") -> dict[str, Any]:
    progress = None
    if read is not None:
        progress = {"read": read, "unread": unread, "records_per_second": 5.0, "seconds_left": None}
    return {"name": name, "kind": kind, "state": state, "progress": progress}


class Bars(Progress):
    """Progress bars that are not drawn but record their updates."""

    def __init__(self) -> None:
        super().__init__(disable=True)
        self.said: list[tuple[int, int, int]] = []

    def update(self, task_id: Any, **changes: Any) -> None:  # type: ignore[override]
        if "completed" in changes:
            self.said.append((task_id, changes["completed"], changes["total"]))
        super().update(task_id, **changes)


def test_catch_up_ends_when_the_initial_records_are_read() -> None:
    """Records that arrive meanwhile do not prolong it."""
    states: dict[str, Iterator[dict[str, Any]]] = {
        "a": iter(
            [query("a", None, 0, "waiting for an executor"), query("a", 4, 6), query("a", 9, 5), query("a", 12, 9)]
        ),
        "b": iter([query("b", 7, 0)]),
    }
    bars = Bars()
    follow(["a", "b"], lambda name: next(states[name]), bars, pause_s=0)
    assert bars.said == [(1, 7, 7), (0, 4, 10), (0, 9, 10), (0, 10, 10)]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (query("a", 3, 1, "failed: division"), '"a" has failed: division'),
        (query("a", 3, 1, "paused"), '"a" is paused; RESUME it'),
        (query("a", 3, 1, "halted"), '"a" is halted; CREATE OR REPLACE or DROP it'),
        (query("a", None, kind="source"), '"a" is a source; give the names of views or queries'),
    ],
)
def test_query_that_cannot_catch_up_is_named(found: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        follow(["a"], lambda _: found, Bars(), pause_s=0)
    assert str(raised.value) == message


def test_catch_up_fails_after_the_timeout() -> None:
    with pytest.raises(ExternalError, match="not caught up before the timeout: a"):
        follow(["a", "b"], lambda name: query(name, 10, 1 if name == "a" else 0), Bars(), deadline=0.0)
