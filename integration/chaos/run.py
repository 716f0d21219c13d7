"""One run: a world that is disturbed while queries come and go, and the comparison of all results afterwards."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dsms.local.waiting import wait_until
from integration.chaos import verdict
from integration.chaos.journal import Journal
from integration.chaos.life import Life, Statements, steps
from integration.chaos.load import END, TICK_S, TOPICS, Load, Topic
from integration.chaos.shapes import SHAPES, SOURCES
from integration.chaos.timeline import Disturbance, timeline
from integration.chaos.world import Impossible, World, unable, world
from integration.cluster import Cluster, frontiers, progress_topic, running
from integration.kafka_log import Change, changes_of, last_values, letters, settled
from integration.kafka_topics import create_topic

#: How long the healed cluster may take until all results are final.
DRAIN_S = 900
#: How often the journal reports progress.
_SIGN_S = 60


@dataclass(frozen=True)
class Figures:
    """The counts of a run's disturbances, statements and compared records, and the wrong results at its end."""

    seed: int
    minutes: float
    disturbances: dict[str, int]
    statements: int
    queries: int
    records: int
    #: Changes of the disturbed run that were compared with DuckDB, and those also with an undisturbed run.
    changes: int
    changes_compared_with_undisturbed: int
    dead_letters: int
    drained_s: float
    left_out: dict[str, str]
    wrong: list[str]


def run(seed: int, minutes: float, directory: Path) -> Figures:
    """Disturbs a world in the directory for `minutes`, then compares all results."""
    journal = Journal(directory / "journal.log")
    for kind, reason in unable().items():
        journal.say(f'"{kind}" is left out: {reason}')
    with world(directory) as made:
        names = {topic: create_topic(made.kafka, topic.name, partitions=topic.partitions) for topic in TOPICS}
        register(made.cluster, names)
        journal.say(f"cluster {made.cluster.name} is up in {directory}")
        load = Load(made.kafka, seed, int(minutes * 60 / TICK_S), names)
        statements = Statements(made.cluster, made.kafka, journal)
        done = _disturbed(made, load, statements, journal, minutes * 60)
        drained_s, wrong = drain(made, statements.lives, journal)
        check = Check(made, names, statements.lives, directory, journal, wrong)
        check.run()
    return Figures(
        seed, minutes, dict(sorted(done.items())), statements.executed, len(statements.lives), load.sent, check.changes,
        check.repeated, check.letters, round(drained_s, 1), unable(), check.wrong,
    )  # fmt: skip


def register(cluster: Cluster, names: Mapping[Topic, str]) -> None:
    """Registers the sources and streams under the prefix of the cluster."""
    cluster.sql(SOURCES.format(p=cluster.name, **{topic.name: name for topic, name in names.items()}))


def _disturbed(made: World, load: Load, statements: Statements, journal: Journal, seconds: float) -> Counter[str]:
    """Disturbs the world while the load and the statements run; returns the number of disturbances by kind. At the end
    everything is healed, all records are published and all statements are done."""
    plan = steps(load.seed, seconds)
    for step in plan[: len(SHAPES)]:
        statements.execute(step)
    begun = journal.begun = time.monotonic()
    load.start()
    statements.start(plan[len(SHAPES) :], begun)
    try:
        done = Counter(disturb(made, timeline(load.seed, seconds, unable()), journal))
        made.heal_all()
        journal.say(f"all is healed after {done.total()} disturbances; {statements.executed} statements were executed")
        load.finish()
        statements.finish(lambda: _supervise(made, journal))
    except BaseException:
        load.abandon()
        statements.abandon()
        raise
    return done


def disturb(made: World, plan: tuple[Disturbance, ...], journal: Journal) -> Iterator[str]:
    """Begins and ends the disturbances at their times; they may overlap. Yields the kind of each that had a target."""
    ends: list[tuple[float, int, Disturbance]] = []
    waiting, signed = list(reversed(plan)), 0.0
    while waiting or ends:
        if waiting and (not ends or waiting[-1].at_s <= ends[0][0]):
            what = waiting.pop()
            _watch_until(journal.begun + what.at_s, made, journal)
            try:
                made.begin(what)
            except Impossible as reason:
                journal.write(f"{what} is left out: {reason}")
                continue
            journal.write(f"{what} begins")
            heapq.heappush(ends, (time.monotonic() - journal.begun + what.hold_s, what.number, what))
            yield what.kind
        else:
            at, _, what = heapq.heappop(ends)
            _watch_until(journal.begun + at, made, journal)
            made.heal(what)
            journal.write(f"{what} is healed")
        if time.monotonic() > journal.begun + signed + _SIGN_S:
            signed = time.monotonic() - journal.begun
            journal.say(f"{what.number} of {len(plan)} disturbances")


def _watch_until(moment: float, made: World, journal: Journal) -> None:
    while not wait_until(lambda: time.monotonic() >= moment, min(1.0, moment - time.monotonic())):
        _supervise(made, journal)


def _supervise(made: World, journal: Journal) -> None:
    if ended := made.supervise():
        journal.write(f"restarted after they exited: {', '.join(ended)}")


def drain(made: World, lives: list[Life], journal: Journal) -> tuple[float, list[str]]:
    """Waits until all results are final; returns the seconds that it took, and a message for each result that is
    not."""
    begun, p = time.monotonic(), made.cluster.name
    topics = {f"dsms.{p}{life.name}": life.name for life in lives if life.dropped is None}

    def behind() -> list[str]:
        _supervise(made, journal)
        known = frontiers(last_values(made.kafka, progress_topic(p)), topics)
        return [name for topic, name in topics.items() if known[topic] < END]

    done = wait_until(lambda: not behind() and settled(made.kafka, topics), DRAIN_S, pause_s=1)
    seconds = time.monotonic() - begun
    journal.say(f"all results are final {seconds:.0f} s later" if done else f"not final after {seconds:.0f} s")
    if done:
        return seconds, []
    states = {query["name"]: query["state"] for query in made.cluster.get("queries")}
    return seconds, [f"{name} is not final: {states.get(p + name)}" for name in behind()]


@dataclass
class Check:
    """The comparison of all results of a drained world."""

    world: World
    names: Mapping[Topic, str]
    lives: list[Life]
    directory: Path
    journal: Journal
    wrong: list[str]
    changes: int = 0
    repeated: int = 0
    letters: int = 0

    def run(self) -> None:
        """Compares dead letters and results with DuckDB's, and with those of an undisturbed run."""
        kafka, p = self.world.kafka, self.world.cluster.name
        dead = {topic: letters(kafka, f"{p}{topic.name}") for topic in TOPICS}
        self.letters = sum(map(len, dead.values()))
        tables = {topic: verdict.accepted(kafka, name, dead[topic], topic) for topic, name in self.names.items()}
        for topic, table in tables.items():
            self._note(f"source {topic.name}", verdict.wrong_letters(dead[topic], table.refused))
        oracle = verdict.Oracle({topic.name: table for topic, table in tables.items()})
        decoder = verdict.Decoder(self.world.cluster.url)
        logs = self._logs(p, [life.name for life in self.lives if life.dropped is None])
        for life in self.lives:
            log = logs[life.name] if life.dropped is None else life.dropped
            self.changes += len(log)
            self._note(life.name, verdict.differences(life, log, oracle, decoder))
        self.journal.say(f"{self.changes} changes are compared with DuckDB; now an undisturbed run")
        self._compare_with_undisturbed(logs)

    def _note(self, what: str, problems: Iterator[str]) -> None:
        for problem in problems:
            self.wrong.append(f"{what}: {problem}")
            self.journal.say(self.wrong[-1])

    def _logs(self, prefix: str, names: list[str]) -> dict[str, list[Change]]:
        topics = {name: f"dsms.{prefix}{name}" for name in names}
        logs = changes_of(self.world.kafka, topics.values())
        return {name: logs[topic] for name, topic in topics.items()}

    def _compare_with_undisturbed(self, logs: Mapping[str, list[Change]]) -> None:
        lives = [life for life in self.lives if verdict.comparable(life)]
        with running(self.world.kafka, self.world.redis.url, self.directory / "undisturbed") as alone:
            register(alone, self.names)
            for life in lives:
                version = life.versions[0]
                alone.sql(version.text.create(alone.name, life.name, version.start))
            alone.start_executor()
            alone.await_frontier([f"dsms.{alone.name}{life.name}" for life in lives], END, DRAIN_S)
            others = self._logs(alone.name, [life.name for life in lives])
            dead = verdict.letters_of(self.world.kafka, alone.name)
        for life in lives:
            self.repeated += len(logs[life.name])
            self._note(life.name, verdict.same_log(logs[life.name], others[life.name]))
        ours = verdict.letters_of(self.world.kafka, self.world.cluster.name)
        self._note("dead letters", verdict.same_letters(ours, dead, {life.name for life in lives}))
