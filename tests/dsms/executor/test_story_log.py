"""When an executor publishes the story of a fragment, and how it continues an earlier one."""

from __future__ import annotations

import msgspec

from dsms.executor.story_log import StoryLog
from dsms.runtime.fragment.story import Story, StoryEntry


class Store:
    """The stories in memory, in place of Redis."""

    def __init__(self, body: bytes | None = None) -> None:
        self.body, self.writes, self.reads = body, 0, 0

    def story(self, fragment: str, executor: str) -> bytes | None:
        assert (fragment, executor) == ("0", "executor-1")
        self.reads += 1
        return self.body

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        assert (fragment, executor) == ("0", "executor-1")
        self.body, self.writes = body, self.writes + 1

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in msgspec.msgpack.decode(self.body or b"", type=Story).entries]


def story_log(store: Store | None) -> tuple[StoryLog, list[float]]:
    """A log, and the seconds of its clock."""
    seconds = [0.0]
    return StoryLog("0", "executor-1", store, monotonic=lambda: seconds[-1]), seconds


def test_a_story_is_written_if_it_has_changed_or_after_a_minute() -> None:
    store = Store()
    log, seconds = story_log(store)
    log.add(StoryEntry("claimed", 1.0))
    log.publish()
    log.publish()
    assert (store.writes, store.kinds) == (1, ["claimed"])
    log.add(StoryEntry("started", 2.0))
    log.publish()
    assert (store.writes, store.kinds) == (2, ["claimed", "started"])
    seconds.append(59.0)
    log.publish()
    assert store.writes == 2
    seconds.append(60.0)
    log.publish()
    assert store.writes == 3


def test_an_executor_that_was_restarted_continues_its_story() -> None:
    store = Store(msgspec.msgpack.encode(Story((StoryEntry("claimed", 1.0), StoryEntry("failed", 2.0)))))
    log, _ = story_log(store)
    log.add(StoryEntry("claimed", 3.0))
    log.publish()
    log.add(StoryEntry("started", 4.0))
    log.publish()
    assert store.kinds == ["claimed", "failed", "claimed", "started"] and store.reads == 1


def test_a_story_that_cannot_be_read_is_replaced() -> None:
    store = Store(b"\xc1")
    log, _ = story_log(store)
    log.add(StoryEntry("claimed", 3.0))
    log.publish()
    assert store.kinds == ["claimed"]


def test_a_batch_that_could_not_be_used_is_retracted() -> None:
    log, _ = story_log(None)
    log.add(StoryEntry("claimed", 1.0), StoryEntry("batch begun", 2.0))
    log.retract_batch()
    log.publish()
    assert [entry.kind for entry in log.story.entries] == ["claimed"]
