"""Creates, changes and drops queries during a run: the schedule of statements (a pure function of the seed), and a
thread that repeats each statement until it succeeds."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from confluent_kafka import KafkaException

from integration.chaos.journal import Journal
from integration.chaos.shapes import SHAPES, Text
from integration.cluster import Cluster, Refused, frontiers, progress_topic
from integration.kafka_log import Change, changes, last_values

#: The most queries at a time, without those that stay.
MOST = 8
_DEADLINE_S = 400
_CREATE, _DROP, _REPLACE, _PAUSE, _RESUME = "create", "drop", "replace", "pause", "resume"


@dataclass(frozen=True)
class Step:
    """A statement about a query. `latest` lets it start at the current end of its sources."""

    at_s: float
    verb: str
    name: str
    text: Text | None = None
    latest: bool = False


@dataclass
class Version:
    """A text of a query, valid from the instant `since` on (None: from the beginning), over records from `start` on."""

    text: Text
    start: int | None = None
    since: int | None = None


@dataclass
class Life:
    """A query from its creation to its end: its versions in order; if it was dropped, the changes that it had published
    before, and their frontier."""

    name: str
    versions: list[Version]
    dropped: list[Change] | None = None
    frontier: int | None = None
    #: The id in the catalog of each version: an earlier query may have had the same name and topic.
    ids: list[str] = field(default_factory=list)

    def frontier_in(self, topic: str, progress: dict[bytes, bytes]) -> int:
        """The instant below which its results are published. An executor that was cut off may have published results of
        the former version at or above the instant at which that version was replaced. They are ignored, as the query
        fails because of them."""
        own = frontiers(progress, [topic], self.ids[-1:])[topic]
        before, since = frontiers(progress, [topic], self.ids)[topic], self.versions[-1].since
        return max(own, before if since is None else min(before, since))


def steps(seed: int, seconds: float) -> tuple[Step, ...]:
    """The statements of a run, in order: one query of each shape at the beginning, which stay, then others.

    >>> plan = steps(1, 300)
    >>> plan == steps(1, 300), {step.verb for step in plan} == {"create", "drop", "replace", "pause", "resume"}
    (True, True)
    """
    return tuple(_Steps(random.Random(f"statements {seed}")).plan(seconds))


@dataclass
class _Steps:
    chance: random.Random
    made: int = 0
    alive: dict[str, Text] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)

    def plan(self, seconds: float) -> Iterator[Step]:
        for shape in SHAPES:
            yield Step(0, _CREATE, shape.name, Text(shape.name, self.chance.randrange(20, 90)))
        at = 0.0
        while (at := at + self.chance.uniform(1, 8)) < seconds:
            yield self._step(at)
        for name in sorted(self.paused):
            yield Step(seconds, _RESUME, name)

    def _step(self, at: float) -> Step:
        verb = self.chance.choice((_CREATE, _CREATE, _DROP, _REPLACE, _PAUSE, _RESUME))
        if verb == _RESUME and self.paused:
            name = self.chance.choice(sorted(self.paused))
            self.paused.remove(name)
            return Step(at, _RESUME, name)
        if verb == _PAUSE and (running := sorted(self._all() - self.paused)):
            name = self.chance.choice(running)
            self.paused.add(name)
            return Step(at, _PAUSE, name)
        if not self.alive or (verb not in (_DROP, _REPLACE) and len(self.alive) < MOST):
            return self._create(at)
        name = self.chance.choice(sorted(self.alive))
        return self._replace(at, name) if verb == _REPLACE else self._drop(at, name)

    def _all(self) -> set[str]:
        return {shape.name for shape in SHAPES} | set(self.alive)

    def _create(self, at: float) -> Step:
        again = self.gone and self.chance.random() < 0.3
        self.made += 1
        name = self.gone.pop(0) if again else f"guest{self.made}"
        text = Text(self.chance.choice(SHAPES).name, self.chance.randrange(20, 90))
        self.alive[name] = text
        return Step(at, _CREATE, name, text, latest=self.chance.random() < 0.25)

    def _replace(self, at: float, name: str) -> Step:
        constant = self.alive[name].constant + self.chance.choice((-7, 7))
        self.alive[name] = Text(self.alive[name].shape, constant)
        return Step(at, _REPLACE, name, self.alive[name])

    def _drop(self, at: float, name: str) -> Step:
        del self.alive[name]
        self.paused.discard(name)
        self.gone.append(name)
        return Step(at, _DROP, name)


@dataclass
class Statements:
    """Executes the statements at their times, in a thread, and repeats each until it succeeds. `kafka` is an address of
    Kafka."""

    cluster: Cluster
    kafka: str
    journal: Journal
    lives: list[Life] = field(default_factory=list)
    executed: int = 0
    failure: Exception | None = None
    _thread: threading.Thread | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self, plan: tuple[Step, ...], begun: float) -> None:
        """Starts the thread; `begun` is the beginning of the run on the monotonic clock."""
        self._thread = threading.Thread(target=self._run, args=(plan, begun), name="statements")
        self._thread.start()

    def finish(self, meanwhile: Callable[[], object]) -> None:
        """Waits until all statements are done, and calls `meanwhile` every second; raises the error that ended the
        thread."""
        assert self._thread is not None
        while self._thread.is_alive():
            meanwhile()
            self._thread.join(1)
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Executes no further statements."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def execute(self, step: Step) -> None:
        """Executes one statement, until it succeeds."""
        self.journal.write(f"{step.verb} {step.name}{f' as {step.text}' if step.text else ''}")
        getattr(self, f"_{step.verb}")(step)
        self.executed += 1

    def _run(self, plan: tuple[Step, ...], begun: float) -> None:
        try:
            for step in plan:
                if self._over.wait(max(begun + step.at_s - time.monotonic(), 0)):
                    return
                self.execute(step)
        except Exception as error:  # noqa: BLE001 raised by finish()
            self.failure = error
            self.journal.write(f"a statement failed: {error!r}")

    def _create(self, step: Step) -> None:
        assert step.text is not None
        start = "latest" if step.latest else None
        self._until_done(step.text.create(self._p, step.name, start), lambda: self._document(step.name) is not None)
        document = self._known(step.name)
        first = Version(step.text, int(document["start"]) if step.latest else None)
        self.lives.append(Life(step.name, [first], ids=[document["id"]]))

    def _replace(self, step: Step) -> None:
        text = step.text
        assert text is not None
        self._until_done(
            text.create(self._p, step.name, replacing=True),
            lambda: text.select(self._p) in self._known(step.name)["sql"],
        )
        document, life = self._known(step.name), self._life(step.name)
        since = document["since"]
        life.ids.append(document["id"])
        if since is None:  # the former versions have published nothing
            life.versions = [Version(text)]
        else:
            life.versions.append(Version(text, since=int(since)))

    def _pause(self, step: Step) -> None:
        self._until_done(f"PAUSE QUERY {self._p}{step.name}", lambda: bool(self._known(step.name)["paused"]))

    def _resume(self, step: Step) -> None:
        self._until_done(f"RESUME QUERY {self._p}{step.name}", lambda: not self._known(step.name)["paused"])

    def _drop(self, step: Step) -> None:
        life, topic = self._life(step.name), f"dsms.{self._p}{step.name}"
        life.frontier, life.dropped = self._published(topic, life)
        self._until_done(f"DROP QUERY {self._p}{step.name}", lambda: self._document(step.name) is None)

    def _published(self, topic: str, life: Life) -> tuple[int, list[Change]]:
        """The frontier of a query in its result topic, and at least its results below that. Reading is repeated while
        Kafka does not answer."""
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                progress = last_values(self.kafka, progress_topic(self.cluster.name))
                return life.frontier_in(topic, progress), changes(self.kafka, topic)
            except (AssertionError, KafkaException):
                if time.monotonic() > deadline:
                    raise
            self._rest()

    def _rest(self) -> None:
        if self._over.wait(0.5):
            raise AssertionError("the run is over")

    @property
    def _p(self) -> str:
        return self.cluster.name

    def _life(self, name: str) -> Life:
        return next(life for life in reversed(self.lives) if life.name == name)

    def _document(self, name: str) -> dict[str, Any] | None:
        """The query's document; None if there is no such query."""
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                return self.cluster.get(f"queries/{self._p}{name}")
            except Refused as refused:
                if refused.status == 404:
                    return None
                if refused.status < 500 or time.monotonic() > deadline:
                    raise
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
            self._rest()

    def _known(self, name: str) -> dict[str, Any]:
        document = self._document(name)
        assert document is not None, f"query {name} is gone"
        return document

    def _until_done(self, sql: str, done: Callable[[], bool]) -> None:
        """Repeats a statement until it succeeds, or turns out to have succeeded although its answer was lost."""
        deadline, unknown = time.monotonic() + _DEADLINE_S, False
        while True:
            try:
                self.cluster.sql(sql)
                return
            except httpx.HTTPError as error:
                failure: Exception = error
                unknown = True
            except Refused as refused:
                failure = refused
                # 503 to a replacement or drop may come after the catalog has changed
                unknown = unknown or refused.status >= 503
                if refused.status in (400, 404) and not (unknown and done()):
                    raise
                if refused.status == 500:
                    raise
            if unknown and done():
                return
            assert time.monotonic() < deadline, f"{sql}: {failure!r}"
            self._rest()
