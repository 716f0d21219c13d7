"""Adding records to a producer's queue, which may be full."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.kafka.records.publish import Outgoing, heartbeats, queue
from operators.core.errors import ExternalError


class FullQueue:
    """A producer whose queue holds `room` records until it is polled."""

    def __init__(self, room: int) -> None:
        self.room, self.held, self.polls = room, 0, 0
        self.produced: list[tuple[Any, ...]] = []

    def produce(self, topic, value, key, *, partition, headers, on_delivery) -> None:
        if self.held == self.room:
            raise BufferError
        self.held += 1
        self.produced.append((topic, value, key, partition, headers))

    def poll(self, _: float) -> None:
        self.held, self.polls = 0, self.polls + 1


@pytest.mark.parametrize("room", [1, 2, 9])
def test_a_full_queue_loses_and_repeats_no_record(room: int) -> None:
    producer = FullQueue(room)
    for record in [Outgoing(b"k", b"v", "-", 3).record(), *heartbeats(range(2), 7)]:
        queue(producer, "t", record, lambda error, message: None)
    assert producer.produced == [
        ("t", b"v", b"k", -1, [("dsms-op", b"-"), ("dsms-ts", b"3")]),
        ("t", None, None, 0, [("dsms-heartbeat", b"7")]),
        ("t", None, None, 1, [("dsms-heartbeat", b"7")]),
    ]


def test_a_check_ends_the_wait_for_room() -> None:
    producer = FullQueue(0)

    def check() -> None:
        if producer.polls == 3:
            raise ExternalError("gone")

    with pytest.raises(ExternalError, match="gone"):
        queue(producer, "t", Outgoing(None, b"v").record(), lambda error, message: None, check)
