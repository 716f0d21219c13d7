"""Keeps the story of a fragment in memory and publishes it in Redis, where the coordinator reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from dsms.runtime.fragment.story import Story, StoryEntry, without_unused_batch
from operators.core.decoding import Malformed, decoded

#: An unchanged story is written again after this many seconds, so that it neither expires nor stays lost.
_RENEW_S = 60.0


class StoryStore(Protocol):
    """The store of the stories of fragments on executors; `ClusterState` keeps them in Redis."""

    def story(self, fragment: str, executor: str) -> bytes | None:
        """The stored story of a fragment on an executor."""
        ...

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        """Stores the story of a fragment on an executor."""
        ...


class StoryLog:
    """The story of a fragment on this executor. Any thread may call it. The first `publish` puts the stored story of an
    earlier process of the same name before this one. Without a store, the story stays in memory."""

    def __init__(
        self,
        fragment: str,
        executor: str,
        store: StoryStore | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fragment, self._executor, self._store = fragment, executor, store
        self._clock, self._monotonic = clock, monotonic
        self._story, self._lock = Story(), threading.Lock()
        self._publishing, self._continued = threading.Lock(), False
        self._published: Story | None = None
        self._published_at = 0.0

    @property
    def story(self) -> Story:
        """The story so far."""
        return self._story

    @property
    def now(self) -> float:
        """The time for the next entry, in seconds since 1970."""
        return self._clock()

    def add(self, *entries: StoryEntry) -> None:
        """Adds entries."""
        with self._lock:
            self._story = self._story.after(*entries)

    def retract_batch(self) -> None:
        """Removes the entry about the last batch that has begun."""
        with self._lock:
            self._story = without_unused_batch(self._story)

    def publish(self) -> None:
        """Stores the story if it has changed, or if it was stored a minute ago. Raises ExternalError."""
        if self._store is None:
            return
        with self._publishing:
            self._continue_stored(self._store)
            story, now = self._story, self._monotonic()
            if story is not self._published or now - self._published_at >= _RENEW_S:
                self._store.set_story(self._fragment, self._executor, msgspec.msgpack.encode(story))
                self._published, self._published_at = story, now

    def _continue_stored(self, store: StoryStore) -> None:
        if self._continued:
            return
        earlier = _read(store.story(self._fragment, self._executor))
        with self._lock:
            self._story = earlier.followed_by(self._story)
        self._continued = True


def _read(body: bytes | None) -> Story:
    """The story in a document; empty if there is none, or if another version of dsms wrote it in another format."""
    try:
        story: Story = decoded(body, Story, "msgpack") if body else Story()
        return story
    except Malformed:
        return Story()
