"""`dsms catch-up`: it ends when all have caught up, and says which never will."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.progress import Progress

from dsms.cli.catch_up import follow
from operators.core.errors import ExternalError, UserError


def query(name: str, percent: int | None, state: str = "running", **other: Any) -> dict[str, Any]:
    progress = None
    if percent is not None:
        progress = {
            "percent": percent, "catching_up": percent < 100, "records_per_second": 5.0, "seconds_left": 100 - percent,
        }  # fmt: skip
    return {"name": name, "state": state, "paused": False, "progress": progress, **other}


class Bars(Progress):
    """Progress bars that are not drawn, and what they were told."""

    def __init__(self) -> None:
        super().__init__(disable=True)
        self.said: list[tuple[int, Any]] = []

    def update(self, task_id: Any, **changes: Any) -> None:  # type: ignore[override]
        self.said.append((task_id, changes["completed"]))
        super().update(task_id, **changes)


def test_it_ends_when_the_last_has_caught_up() -> None:
    states: dict[str, Iterator[dict[str, Any]]] = {
        "a": iter([query("a", None, "waiting for an executor"), query("a", 40), query("a", 99), query("a", 100)]),
        "b": iter([query("b", 100)]),
    }
    bars = Bars()
    follow(["a", "b"], lambda name: next(states[name]), bars, pause_s=0)
    assert bars.said == [(0, 0), (1, 100), (0, 40), (0, 99), (0, 100)]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (query("a", 30, "failed: division"), '"a" has failed: division'),
        (query("a", 30, paused=True), '"a" is paused; RESUME it'),
    ],
)
def test_one_that_will_not_catch_up_is_named(found: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        follow(["a"], lambda _: found, Bars(), pause_s=0)
    assert str(raised.value) == message


def test_it_gives_up_in_time() -> None:
    with pytest.raises(ExternalError, match="not caught up in time: a"):
        follow(["a", "b"], lambda name: query(name, 10 if name == "a" else 100), Bars(), deadline=0.0)
