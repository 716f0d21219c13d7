"""A kept result gives the relation of each instant that it knows, however its topic is read and written meanwhile."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.records.log_pieces import MessagePiece
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.coordinator.results.kept_result import KeptResult
from dsms.coordinator.results.kept_results import KeptResults
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.tables.select_budget import Budget, LimitExceeded
from operators.core.delta import FOREVER
from tests.support.message_pieces import piece_of

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])
QUERY = Query(name="q", id="o1", sql="", kind="view", select="", topic="t", partitions=2)
PARTITIONS = 2


@dataclass(frozen=True)
class Record:
    """A record with the interface of the client's messages."""

    at: int
    op: str
    k: int
    v: int
    place: tuple[int, int]
    keyed: bool

    def key(self) -> bytes | None:
        return _json({"k": self.k}) if self.keyed else None

    def value(self) -> bytes | None:
        return None if self.keyed and self.op == "-" else _json({"k": self.k, "v": self.v})

    def offset(self) -> int:
        return self.place[1]

    def partition(self) -> int:
        return self.place[0]

    def topic(self) -> str:
        return "t"

    def headers(self) -> list[tuple[str, bytes]]:
        return [("dsms-ts", str(self.at).encode()), ("dsms-op", self.op.encode())]

    def __len__(self) -> int:
        return len(self.value() or b"")


def _json(document: dict[str, int]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


@dataclass
class ScriptedLog:
    """A topic in memory, which can be compacted and created again."""

    partitions: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    id: str = "first"
    clock: float = 0.0
    reads: list[OffsetRange] = field(default_factory=list)

    def append(self, at: int, op: str, k: int, v: int, *, keyed: bool) -> None:
        log = self.partitions[k % PARTITIONS]
        log.append(Record(at, op, k, v, (k % PARTITIONS, log[-1].offset() + 1 if log else 0), keyed))

    def compact(self) -> None:
        self.clock += 60
        for log in self.partitions:
            last = {record.k: record.offset() for record in log}
            log[:] = [record for record in log if last[record.k] == record.offset()]

    def identity(self, topic: str) -> str:
        return self.id

    def unread(self, topic: str, next_offsets: Mapping[int, int]) -> list[OffsetRange]:
        ends = [log[-1].offset() + 1 if log else 0 for log in self.partitions]
        starts = [next_offsets.get(number, 0) for number in range(PARTITIONS)]
        return [
            OffsetRange(topic, number, starts[number], end) for number, end in enumerate(ends) if end > starts[number]
        ]

    def read(self, wanted: OffsetRange, *, whole: bool) -> Iterator[MessagePiece]:
        self.reads.append(wanted)
        found = [each for each in self.partitions[wanted.partition] if wanted.start <= each.offset() < wanted.end]
        yield piece_of(found[:1])
        yield piece_of(found[1:])


def budget() -> Budget:
    return Budget.of(Limits())


def kept(log: ScriptedLog, *, keyed: bool, output: str = "streamed") -> KeptResult:
    query = msgspec.structs.replace(QUERY, output=output)
    return KeptResult(query, (SCHEMA, ("k",) if keyed else ()), log, lambda *_: None, lambda: log.clock)


def rows(table: pa.Table | None) -> Counter[tuple[int, int]] | None:
    return None if table is None else Counter((row["k"], row["v"]) for row in table.to_pylist())


#: For each instant, the changes: a key, and its value or None to remove the row.
HISTORIES = st.lists(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 3)), max_size=4), max_size=12)


def written(log: ScriptedLog, history: Sequence[Sequence[tuple[int, int | None]]], *, keyed: bool) -> Iterator[Counter]:
    """Writes the changes of each instant; yields the relation after it, by a plain dictionary or count."""
    by_key: dict[int, int] = {}
    for at, changes in enumerate(history):
        for k, v in changes:
            if v is None and k in by_key:
                log.append(at, "-", k, by_key.pop(k), keyed=keyed)
            elif v is not None:
                if not keyed and k in by_key:
                    log.append(at, "-", k, by_key[k], keyed=keyed)
                log.append(at, "+", k, v, keyed=keyed)
                by_key[k] = v
        yield Counter(by_key.items())


@given(HISTORIES, st.booleans(), st.data())
def test_every_known_instant_has_the_relation_of_a_fold_from_the_start(
    history, keyed: bool, data: st.DataObject
) -> None:
    log, relations = ScriptedLog(), []
    result = kept(log, keyed=keyed)
    for at, relation in enumerate(written(log, history, keyed=keyed)):
        relations.append(relation)
        if data.draw(st.booleans(), "compact") and keyed:
            log.compact()
        if not data.draw(st.booleans(), "read"):
            continue
        asked = data.draw(st.integers(0, at), "instant")
        found = rows(result.rows_at(asked, at + 1, budget()))
        assert found is None or found == relations[asked]
        assert rows(result.rows_at(at, at + 1, budget())) == relations[at]
        wanted = data.draw(st.integers(0, 4), "key")
        one = rows(result.rows_at(at, at + 1, budget(), [_json({"k": wanted})])) if keyed else None
        assert one is None or one == Counter({row: 1 for row in relations[at] if row[0] == wanted})


def test_changes_above_the_frontier_wait() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True)
    log.append(1, "+", 0, 10, keyed=True)
    log.append(2, "+", 0, 20, keyed=True)
    assert result.rows_at(1, 2, budget()) is None  # the topic is compacted: what instant 2 has replaced may be gone
    assert result.floor == 2
    log.append(3, "+", 0, 30, keyed=True)
    assert rows(result.rows_at(2, 3, budget())) == {(0, 20): 1}
    assert rows(result.rows_at(3, 4, budget())) == {(0, 30): 1}
    assert rows(result.rows_at(2, 4, budget())) == {(0, 20): 1}


def test_a_complete_result_is_known_before_what_waits() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True, output="complete")
    log.append(1, "+", 0, 10, keyed=True)
    log.append(2, "+", 0, 20, keyed=True)
    assert rows(result.rows_at(1, 2, budget())) == {(0, 10): 1}


def test_records_are_read_once_and_not_without_a_later_frontier() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True)
    log.append(1, "+", 0, 10, keyed=True)
    result.follow(2, budget())
    log.append(2, "+", 0, 20, keyed=True)
    assert rows(result.rows_at(1, 2, budget())) == {(0, 10): 1}
    assert log.reads == [OffsetRange("t", 0, 0, 1)]
    assert rows(result.rows_at(2, 3, budget())) == {(0, 20): 1}
    assert log.reads == [OffsetRange("t", 0, 0, 1), OffsetRange("t", 0, 1, 2)]


def test_a_topic_of_the_same_name_is_read_from_its_start() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True)
    log.append(1, "+", 0, 10, keyed=True)
    result.follow(2, budget())
    log.partitions, log.id = [[], []], "second"
    log.append(2, "+", 2, 5, keyed=True)
    assert rows(result.rows_at(2, 3, budget())) == {(2, 5): 1}


def test_the_size_of_a_relation_is_limited() -> None:
    log = ScriptedLog()
    for k in range(12_000):
        log.append(1, "+", k, 10, keyed=True)
    with pytest.raises(LimitExceeded, match="relation_mb"):
        kept(log, keyed=True).follow(2, Budget.of(Limits(relation_mb=1)))


def test_results_not_used_for_longest_leave() -> None:
    log = ScriptedLog()
    for k in range(8_000):
        log.append(1, "+", k, 10, keyed=True)
    results = KeptResults(log, lambda *_: None, 2)
    queries = [msgspec.structs.replace(QUERY, id=f"o{number}", name=uuid.uuid4().hex) for number in range(3)]
    made = []
    for query in queries:
        made.append(results.of(query, lambda: (SCHEMA, ("k",))))
        made[-1].rows_at(1, FOREVER, budget())
        results.shrink()
    assert results.of(queries[2], lambda: (SCHEMA, ("k",))) is made[2]
    assert results.of(queries[0], lambda: (SCHEMA, ("k",))) is not made[0]


def test_a_table_is_decoded_again_when_many_rows_have_changed() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True)
    for k in range(3_000):
        log.append(1, "+", k, 0, keyed=True)
    assert result.rows_at(1, 2, budget()).num_rows == 3_000  # type: ignore[union-attr]
    for k in range(0, 3_000, 2):
        log.append(2, "-" if k % 3 else "+", k, 7, keyed=True)
    log.append(3, "+", 9_999, 5, keyed=True)
    expected = Counter({(k, 0): 1 for k in range(1, 3_000, 2)} | {(k, 7): 1 for k in range(0, 3_000, 6)})
    assert rows(result.rows_at(2, 4, budget())) == expected
    assert rows(result.rows_at(3, 4, budget())) == expected + Counter([(9_999, 5)])
    assert rows(result.rows_at(2, 4, budget())) == expected
    assert rows(result.rows_at(1, 4, budget())) == Counter({(k, 0): 1 for k in range(3_000)})


def test_what_comes_after_a_pause_is_known_if_nothing_came_in_it() -> None:
    log = ScriptedLog()
    result = kept(log, keyed=True)
    log.append(1, "+", 0, 10, keyed=True)
    result.follow(2, budget())
    log.clock += 60
    result.follow(2, budget())
    log.append(2, "+", 0, 20, keyed=True)
    log.append(3, "+", 0, 30, keyed=True)
    assert rows(result.rows_at(2, 3, budget())) == {(0, 20): 1}
    log.clock += 60
    log.append(4, "+", 0, 40, keyed=True)
    log.append(5, "+", 0, 50, keyed=True)
    assert result.rows_at(4, 5, budget()) is None
    assert rows(result.rows_at(5, 6, budget())) == {(0, 50): 1}
