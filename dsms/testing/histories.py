"""Checks the queries of a user in random histories of the whole service: batches, executors and faults change no
result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import msgspec
from structlog.testing import capture_logs

from connectors.simulation.scheduler import EPOCH_S
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.runtime.stages.intake import LATE
from dsms.simulation.clients import in_order
from dsms.simulation.history import History, Publication, Statement
from dsms.simulation.random_layouts import random_faults, random_layout
from dsms.simulation.run import Outcome, run
from dsms.simulation.shrink import shrunk
from dsms.simulation.story import story
from dsms.simulation.world import World
from dsms.sql.parser.parse import split
from dsms.testing.local_logs import as_instant, as_records
from dsms.testing.local_session import LocalSession
from operators.core.errors import UserError

#: For each source, its records as `LocalSession.push` takes them.
Feed = Mapping[str, Iterable[Mapping[str, object]]]
#: When records are sent, and when the last fault begins.
_BEGIN_S, _UNTIL_S = 4.0, 30.0
#: The most runs to make a failing history smaller.
_MAX_RUNS = 60
#: The latest beginning of a history, in seconds since 1970.
_LATEST_S = 4e9
_REFUSED = "refused: "


@dataclass(frozen=True)
class Summary:
    """What was simulated: the number of histories, the faults that happened, by kind, and seconds of virtual time."""

    histories: int
    faults: Mapping[str, int]
    seconds: float


def simulate(statements: str, feed: Feed, *, seeds: Iterable[int] = range(20), faults: bool = True) -> Summary:
    """Runs statements over the records of a feed in the whole service, simulated, once for each seed: with random
    numbers of brokers, executors and targets, batches, and faults such as kills, lost answers and full disks.

    Raises AssertionError, with the story of a smaller history that fails as well, if what is published differs from
    what the same logs give without any fault.

    >>> summary = simulate(
    ...     "REGISTER SOURCE T (a INT) FROM t; CREATE STREAM S OVER T KEY NULL; CREATE VIEW V AS SELECT a FROM R(S)",
    ...     {"T": [{"a": 7, "ts": 1}]}, seeds=[1])
    >>> summary.histories
    1
    """
    plan = _Plan.of(statements, feed)
    histories, happened, seconds = 0, Counter[str](), 0.0
    for seed in seeds:
        with capture_logs():
            outcome = run(plan.history(seed, faults=faults), _refused)
            if outcome.problems:
                raise AssertionError(_failure(outcome))
        histories, seconds = histories + 1, seconds + outcome.seconds
        happened.update(outcome.happened)
    return Summary(histories, dict(happened), seconds)


@dataclass(frozen=True)
class _Plan:
    """What all histories have in common: the statements, the number of those that declare the inputs, the records of
    each topic, its partitions, and the instant that all records have passed."""

    statements: Sequence[str]
    declaring: int
    records: Mapping[str, Sequence[Publication]]
    partitions: Mapping[str, int]
    last: int

    @staticmethod
    def of(statements: str, feed: Feed) -> _Plan:
        """Raises UserError if a statement is wrong, or a record does not fit its source."""
        session, texts, declaring = LocalSession(), [], 0
        for text in split(statements):
            before = session.catalog
            session.execute(text)
            if session.catalog is not before:  # otherwise it only shows something
                texts.append(text)
            if len(session.catalog.sources()) > len(before.sources()):
                declaring = len(texts)
        _check(session.catalog)
        catalog = session.catalog
        records: dict[str, list[Publication]] = {source.topic: [] for source in catalog.sources()}
        for name, given in feed.items():
            source = _source(session, name)
            records[source.topic] += _publications(session, source, as_records(given))
        partitions = {source.topic: source.partitions for source in catalog.sources()}
        return _Plan(texts, declaring, records, partitions, session.reached() + 1)

    def history(self, seed: int, *, faults: bool) -> History:
        """The history of a seed."""
        chance = Random(f"history {seed}")
        layout = random_layout(chance)
        queries_s = chance.choice([1.0, 1.0, _UNTIL_S / 2, _UNTIL_S])
        texts = tuple(
            Statement((0.2 if number < self.declaring else queries_s) + number / 50, text)
            for number, text in enumerate(self.statements)
        )
        sent = in_order(each for topic in self.records for each in self._sent(topic, chance))
        suffered = sorted(random_faults(layout, chance, _UNTIL_S), key=lambda fault: fault.at_s) if faults else ()
        epoch_s = min(max(EPOCH_S, self.last / 1000), _LATEST_S)  # records from the future would be refused
        return History(seed, dict(self.partitions), texts, sent, tuple(suffered), layout, epoch_s=epoch_s)

    def _sent(self, topic: str, chance: Random) -> Iterator[Publication]:
        """The records of a topic at random times, dealt out to its partitions, each of which a heartbeat ends."""
        records, partitions, at_s = self.records[topic], self.partitions[topic], _BEGIN_S
        for number, record in enumerate(records):
            at_s += chance.uniform(0, (_UNTIL_S - _BEGIN_S) / len(records))
            yield replace(record, at_s=at_s, partition=number % partitions)
        for partition in range(partitions):
            yield Publication(_UNTIL_S, topic, partition, heartbeat=self.last)


def _check(catalog: Catalog) -> None:
    """Raises UserError if the catalog has objects that are not simulated."""
    if catalog.functions() or any(part.python for each in catalog.aggregates() for part in each.parts):
        raise UserError("functions in Python cannot be simulated", hint="they run in processes of their own")
    if catalog.tables():
        raise UserError("tables cannot be simulated", hint="use a source")


def _source(session: LocalSession, name: str) -> Source:
    """The source of a name. Raises UserError if it is not a source whose records can be written from dicts."""
    source = session.catalog.find(name)
    if not isinstance(source, Source):
        raise UserError(f'"{name}" is not a source', hint=f"have: {_listed(session.catalog.sources())}")
    if source.format != "json" or source.late_of is not None:
        raise UserError(f'source "{name}" cannot be simulated', hint="the feed is for sources in JSON")
    return source


def _listed(sources: Iterable[Source]) -> str:
    return ", ".join(source.name for source in sources) or "no sources"


def _publications(
    session: LocalSession, source: Source, records: Sequence[Mapping[str, object]]
) -> Iterator[Publication]:
    """The records as they are sent. Raises UserError if one of them does not fit the source."""
    session.push(source.name, records)
    for letter in session.dead_letters(source.name):
        if letter["query"] is None and not str(letter["reason"]).startswith(LATE):
            raise UserError(f'record {letter["offset"]} of source "{source.name}" does not fit: {letter["reason"]}')
    for record in records:
        yield _publication(source, record)


def _publication(source: Source, record: Mapping[str, object]) -> Publication:
    """A record without its time and partition."""
    header = {"ts"} if source.timestamp is None else set()
    header |= {"op"} if source.tagged == "header" else set()
    row = {name: value for name, value in record.items() if name not in header - set(source.schema.names)}
    if source.timestamp is not None:
        row.setdefault(source.timestamp, row.get("ts"))
    ts = as_instant(record["ts"]) if source.timestamp is None else None
    op = str(record["op"]) if "op" in record and source.tagged == "header" else None
    value = msgspec.json.encode({name: _json(part) for name, part in row.items()})
    return Publication(0.0, source.topic, 0, value, ts=ts, op=op)


def _json(value: object) -> object:
    """A value as records in JSON have it: doubles that are no numbers are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _json(part) for name, part in value.items()}
    return [_json(part) for part in value] if isinstance(value, list | tuple) else value


def _refused(world: World) -> Iterator[str]:
    """The statements that the service refused, although they are right."""
    yield from (f"{_REFUSED}{answer.statement.sql}: {answer.error}" for answer in world.client.answers if answer.error)


def _failure(outcome: Outcome) -> str:
    """What is wrong, and the story of a smaller history in which the same is."""

    def fails(history: History) -> bool:
        found = run(history, _refused).problems
        wrong = [problem for problem in found if not problem.startswith(_REFUSED)]
        return outcome.problems[0] in found or bool(wrong)

    least = shrunk(outcome.history, fails, _MAX_RUNS)
    problems = "\n".join(outcome.problems)
    return f"seed {least.seed}: {problems}\nin a smaller history:\n{story(run(least, _refused))}"
