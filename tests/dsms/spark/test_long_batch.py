"""The batches within one batch of Spark read each record once, in order, until the stream is stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.spark import long_batch
from dsms.spark.long_batch import LongBatch, TaskBatch
from dsms.spark.task_slots import TaskSlots
from operators.core.errors import ExternalError


class Planner:
    """Plans batches over a log of numbers that grows each time its end is looked at; calls `ended` at its last end."""

    def __init__(self, growth: Sequence[int]) -> None:
        self._growth, self._end = list(reversed(growth)), 0
        self.ended: Callable[[], None] = lambda: None

    def latest(self, start: dict[str, Any]) -> dict[str, Any]:
        if not self._growth:
            self.ended()
        self._end += self._growth.pop() if self._growth else 0
        return {"at": self._end}

    @property
    def calls(self) -> dict[str, Any]:
        return {"initial": lambda: {"at": 0}, "latest": self.latest, "tasks": numbers}


def numbers(start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [json.dumps(list(range(start["at"], end["at"]))).encode()]


@given(st.lists(st.sampled_from([0, 0, 1, 3, 20]), max_size=12))
def test_no_record_is_left_out_or_read_twice(growth: list[int]) -> None:
    planner, read = Planner(growth), list[int]()

    def take(batch: TaskBatch) -> None:
        (order,) = batch._orders
        read.extend(json.loads(order.task))

    batches = LongBatch(planner.calls, cast(TaskSlots, None), take)
    planner.ended = batches.stop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_batch, "SHORT_PAUSE_S", 0.0)
        start = batches.calls["initial"]()
        for _ in growth:  # as Spark does until there is something to read
            if batches.calls["latest"](start) != start:
                batches.run()
                break
    assert read == list(range(sum(growth)))


def test_an_error_of_the_planner_ends_the_batch() -> None:
    def latest(_: dict[str, Any]) -> dict[str, Any]:
        raise ExternalError("kafka is away")

    batches = LongBatch({"latest": latest, "tasks": lambda *_: []}, cast(TaskSlots, None), lambda _: None)
    with pytest.raises(ExternalError, match="kafka is away"):
        batches.run()
