"""Checks all results: against DuckDB at many instants, and against an undisturbed run record by record."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import fastavro
import httpx
import pyarrow as pa
from confluent_kafka import Message

from integration.chaos.life import Life, Version
from integration.chaos.load import QUIET, SLACK, TOPICS, Topic
from integration.chaos.shapes import BY_NAME
from integration.kafka_log import Change, Letter, letters, read_committed
from tests.support.oracle import Advance, Bad, Event, Record, accept

#: The number of instants at which a relation is compared.
INSTANTS = 101
Row = tuple[tuple[str, object], ...]
Position = tuple[int, int]
_COLUMNS = pa.schema([
    ("part", pa.int64()), ("offset", pa.int64()), ("ts", pa.int64()), ("op", pa.string()), ("k", pa.string()),
    ("v", pa.int64()), ("d", pa.int64()),
])  # fmt: skip


@dataclass
class Accepted:
    """The records of a source topic that must be accepted, and the positions of those that must be dead letters."""

    rows: list[dict[str, object]] = field(default_factory=list)
    refused: set[Position] = field(default_factory=set)


def accepted(kafka: str, name: str, dead: Iterable[Letter], topic: Topic) -> Accepted:
    """The records of a topic that must be accepted. In the topic with a quiet partition, which records are late depends
    on logged idle decisions, so these are taken from its dead letters."""
    result = Accepted()
    partitions: dict[int, list[Message]] = {}
    for message in read_committed(kafka, name):
        partitions.setdefault(message.partition(), []).append(message)
    for partition, messages in partitions.items():
        events = [_event(message) for message in messages]
        records = [message for message, event in zip(messages, events, strict=True) if not isinstance(event, Advance)]
        late = {(partition, records[at].offset()) for at in accept(events, SLACK)[1]}
        if topic is QUIET:
            late |= {_position(letter) for letter in dead if _error(letter).startswith("late")}
        for message, event in zip(messages, events, strict=True):
            place = partition, message.offset()
            if isinstance(event, Bad) or (isinstance(event, Record) and place in late):
                result.refused.add(place)
            elif isinstance(event, Record):
                op = "-" if event.deletion else "+"
                result.rows.append({"part": partition, "offset": place[1], "ts": event.ts, "op": op, **event.row})
    return result


def _event(message: Message) -> Event:
    headers = dict(message.headers() or [])
    if message.value() is None:
        return Advance(int(headers["dsms-heartbeat"]))
    try:
        row = json.loads(message.value())
    except ValueError:
        return Bad()
    if not (isinstance(row, dict) and isinstance(row.get("k"), str) and isinstance(row.get("v"), int)):
        return Bad()
    return Record(int(headers["dsms-ts"]), row, headers.get("dsms-op") == b"-")


def _error(letter: Letter) -> str:
    return dict(letter.headers)["dsms-error"]


def _position(letter: Letter) -> Position:
    headers = dict(letter.headers)
    return int(headers["dsms-partition"]), int(headers["dsms-offset"])


def wrong_letters(dead: list[Letter], refused: set[Position]) -> Iterator[str]:
    """Compares the dead letters of the source itself, not of queries, with the records that had to be refused."""
    places = Counter(_position(letter) for letter in dead if "dsms-query" not in dict(letter.headers))
    if twice := [place for place, count in places.items() if count > 1]:
        yield f"dead letters are duplicated: {sorted(twice)[:5]}"
    if missing := refused - places.keys():
        yield f"{len(missing)} dead letters are missing: {sorted(missing)[:5]}"
    if more := places.keys() - refused:
        yield f"{len(more)} records are dead letters but should have been accepted: {sorted(more)[:5]}"


class Oracle:
    """DuckDB over the accepted records."""

    def __init__(self, tables: Mapping[str, Accepted]) -> None:
        self._database = duckdb.connect()
        self.last = 0
        for name, table in tables.items():
            self._database.register("rows", pa.Table.from_pylist(table.rows, schema=_COLUMNS))
            self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            self.last = max([self.last, *(int(str(row["ts"])) for row in table.rows)])

    def relation(self, version: Version, at: int) -> Counter[Row]:
        """The rows of a query at an instant."""
        result = self._database.execute(version.text.duck(at, version.start))
        names = [column[0] for column in result.description]
        return Counter(_row(dict(zip(names, row, strict=True))) for row in result.fetchall())


def _row(values: Mapping[str, Any]) -> Row:
    return tuple(
        sorted((name, f"{value:.9g}" if isinstance(value, float) else value) for name, value in values.items())
    )


class Decoder:
    """Reads keys and values of results, with the schemas of a registry for those in Avro."""

    def __init__(self, registry: str) -> None:
        self._schema = cache(lambda number: fastavro.parse_schema(json.loads(_get(f"{registry}/schemas/ids/{number}"))))

    def row(self, value: bytes) -> Row:
        """The row of a value."""
        return _row(self._avro(value) if value[:1] == b"\0" else json.loads(value))

    def _avro(self, value: bytes) -> dict[str, Any]:
        schema = self._schema(int.from_bytes(value[1:5], "big"))
        return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)


def _get(url: str) -> str:
    return httpx.get(url, timeout=30, trust_env=False).raise_for_status().json()["schema"]


def malformed(log: list[Change]) -> Iterator[str]:
    """The errors of a log in itself: decreasing instants in a partition, a change of an absent row, a repeated
    change."""
    last: dict[int, int] = {}
    present: dict[bytes, bytes | None] = {}
    changed: set[tuple[bytes, int]] = set()
    rows = Counter[bytes]()
    for change in log:
        if change.ts < last.get(change.partition, change.ts):
            yield f"partition {change.partition} goes back to {change.ts}"
        last[change.partition] = change.ts
        if change.key is None:
            assert change.value is not None
            rows[change.value] += 1 if change.op == "+" else -1
            if rows[change.value] < 0:
                yield f"{change} removes an absent row"
            continue
        if (change.key, change.ts) in changed:
            yield f"{change} is the second change of its key at that instant"
        changed.add((change.key, change.ts))
        if (change.key in present) != (change.op != "+"):
            yield f"{change} follows {present.get(change.key)!r}"
        elif change.op == "u" and present[change.key] == change.value:
            yield f"{change} changes nothing"
        if change.op == "-":
            present.pop(change.key, None)
        else:
            present[change.key] = change.value


def differences(life: Life, log: list[Change], oracle: Oracle, decode: Decoder) -> Iterator[str]:
    """Compares a query's log with DuckDB's relation at many instants below its frontier, for all its versions."""
    yield from list(malformed(log))[:5]
    end = oracle.last + 100 if life.frontier is None else life.frontier
    ordered = sorted(log, key=lambda change: change.ts)
    keyed: dict[bytes, Row] = {}
    rows = Counter[Row]()
    at = 0
    for instant in _instants(life, oracle.last, end):
        while at < len(ordered) and ordered[at].ts <= instant:
            _apply(ordered[at], keyed, rows, decode)
            at += 1
        version = [each for each in life.versions if each.since is None or each.since <= instant][-1]
        expected, got = oracle.relation(version, instant), Counter(keyed.values()) + rows
        if got != expected:
            yield (
                f"at {instant} of {end} ({version}): {dict(list((got - expected).items())[:3])} are too many, "
                f"{dict(list((expected - got).items())[:3])} are missing"
            )
            return


def _apply(change: Change, keyed: dict[bytes, Row], rows: Counter[Row], decode: Decoder) -> None:
    if change.key is None:
        assert change.value is not None
        rows[decode.row(change.value)] += 1 if change.op == "+" else -1
    elif change.value is None:
        keyed.pop(change.key, None)
    else:
        keyed[change.key] = decode.row(change.value)


def _instants(life: Life, last: int, end: int) -> list[int]:
    spread = {last * number // (INSTANTS - 3) for number in range(INSTANTS - 2)}
    edges = {version.since for version in life.versions if version.since is not None}
    return sorted(at for at in {*spread, *edges, *(edge - 1 for edge in edges), last, last + 60} if 0 <= at < end)


def comparable(life: Life) -> bool:
    """Whether another run must give the very same log."""
    return len(life.versions) == 1 and BY_NAME[life.versions[0].text.shape].logged and life.dropped is None


def same_log(log: list[Change], other: list[Change]) -> Iterator[str]:
    """Compares two logs record by record. Avro records begin with the id of their schema, which is named after the
    query, and their partition depends on it: of these the changes of each key are compared."""
    ours, theirs = map(_comparable_log, (log, other))
    if ours != theirs:
        at = next(
            (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        yield f"record {at} of {len(ours)} is {ours[at : at + 1]}, undisturbed {theirs[at : at + 1]} of {len(theirs)}"


def _comparable_log(log: list[Change]) -> list[Change]:
    if not (log and log[0].key and log[0].key[:1] == b"\0"):
        return log
    bare = [change._replace(partition=0, key=change.key[5:], value=change.value and change.value[5:]) for change in log]
    return sorted(bare, key=lambda change: change.key or b"")


def letters_of(kafka: str, prefix: str) -> dict[Topic, list[Letter]]:
    """The dead letters of each source whose dead letters depend only on its log, without the prefix of names."""
    return {
        topic: [
            Letter(letter.value, tuple((name, value.replace(prefix, "")) for name, value in letter.headers))
            for letter in letters(kafka, f"{prefix}{topic.name}")
        ]
        for topic in TOPICS
        if topic is not QUIET
    }


def same_letters(
    ours: Mapping[Topic, list[Letter]], theirs: Mapping[Topic, list[Letter]], queries: Collection[str]
) -> Iterator[str]:
    """Compares the dead letters of two runs, as bags: those of the sources, and of queries that are in both runs."""
    for topic, dead in ours.items():
        left, right = (Counter(_of_queries(each, queries)) for each in (dead, theirs[topic]))
        if left != right:
            more, less = list((left - right).items())[:2], list((right - left).items())[:2]
            yield f"of {topic.name}: {more} are only here, {less} only in the undisturbed run"


def _of_queries(dead: list[Letter], queries: Collection[str]) -> list[Letter]:
    return [letter for letter in dead if dict(letter.headers).get("dsms-query") in (None, *queries)]
