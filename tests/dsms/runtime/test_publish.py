"""An epoch as Kafka records: keys, values, headers, dead letters and progress."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import polars as pl
import pytest

from connectors.kafka.logs.internal_log import Entry
from connectors.kafka.records import epoch_writer
from connectors.kafka.records.record_columns import Records
from dsms.model.objects import Source
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.planner.physical.lane import Output
from dsms.runtime.epoch.dead_letters import DeadRecord
from dsms.runtime.epoch.epoch import Epoch, QueryResult, UnpublishedChanges
from dsms.runtime.epoch.progress_log import Published, WrittenDeadLetters, published_in_log, read_entry
from dsms.runtime.epoch.result_records import dead_records, progress_entries, result_heartbeats, result_records
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.stages.encoding import encode_changes
from operators.core.delta import FROM, ORDER, ORDER_SHIFT
from operators.core.operator import MEMBER
from operators.streams.stream_output import OP
from tests.support.fake_environment import apply_all


@pytest.fixture
def outputs() -> dict[str, Output]:
    plan = plan_fragment(
        apply_all(
            "REGISTER SOURCE T (k INT, v VARCHAR) FROM t; CREATE STREAM S OVER T KEY k;"
            "CREATE STREAMED VIEW Keyed AS SELECT k, v FROM S; CREATE STREAMED VIEW Bag AS SELECT v FROM S"
        )[0],
        1,
    )
    return {output.id: output for output in compile_lane("lane", plan.queries.values()).outputs}


CHANGES = pl.DataFrame(
    {
        "k": [1, 1, 1],
        "v": ["a", None, "b"],
        FROM: [-5, 4, 7],
        ORDER: [0, 1, (3 << ORDER_SHIFT) + 7],
        OP: ["+", "u", "-"],
    }
)


def records_of(output: Output, changes: pl.DataFrame) -> Records:
    """The records of one result, with all pieces concatenated."""
    parts = [
        columns.rows()
        for columns in result_records(UnpublishedChanges(encode_changes(output, changes), {None: output}))
    ]
    keys, values, headers = ([value for part in parts for value in getattr(part, name)] for name in COLUMNS)
    partitions = (
        None if parts[0].partitions is None else [partition for part in parts for partition in part.partitions or ()]
    )
    return Records(parts[0].topic, keys, values, headers, partitions)


COLUMNS = ("keys", "values", "headers")


def test_records_of_family_members_go_to_their_own_results(outputs) -> None:
    output = outputs["o4"]
    changes = pl.DataFrame(
        {
            "v": list("abc"),
            FROM: [1, 2, 1],
            ORDER: [1 << ORDER_SHIFT, 1, 0],
            OP: ["+"] * 3,
            MEMBER: [3, 9, 3],
        }
    )
    written = UnpublishedChanges(encode_changes(output, changes), {3: output, 9: output, 12: output})
    results = [columns.rows() for columns in result_records(written)]
    assert [[json.loads(value)["v"] for value in records.values] for records in results] == [["c", "a"], ["b"]]
    assert [records.partitions for records in results] == [[0, 1], [0]]


def test_result_order_does_not_depend_on_computation_order(outputs) -> None:
    """A result log is ordered by (instant, order, `-` first, value)."""
    output = outputs["o4"]
    changes = pl.DataFrame({"v": list("dcba"), FROM: [2, 1, 1, 1], ORDER: [0, 5, 5, 5], OP: ["+", "+", "+", "-"]})
    for seed in range(5):
        records = records_of(output, changes.sample(fraction=1.0, shuffle=True, seed=seed))
        assert [json.loads(value)["v"] for value in records.values] == list("abcd")


def test_a_keyed_result_has_keys_values_tombstones_and_headers(outputs) -> None:
    output = outputs["o3"]
    records = records_of(output, CHANGES)
    assert (records.topic, records.partitions) == ("dsms.Keyed", None)
    assert [json.loads(key) for key in records.keys] == [{"k": 1}] * 3
    assert [value and json.loads(value) for value in records.values] == [{"k": 1, "v": "a"}, {"k": 1, "v": None}, None]
    assert records.headers == [
        [("dsms-ts", b"-5")],
        [("dsms-op", b"u"), ("dsms-ts", b"4")],
        [("dsms-op", b"-"), ("dsms-ts", b"7")],
    ]


def test_keyless_deletion_has_the_row_and_keeps_the_source_partition(outputs) -> None:
    output = outputs["o4"]
    records = records_of(output, CHANGES.drop("k")[1:].vstack(CHANGES.drop("k")[:1]))
    assert records.keys == [None] * 3
    assert [json.loads(value) for value in records.values] == [{"v": "a"}, {"v": None}, {"v": "b"}]
    assert records.partitions == [0, 0, 1]


def test_keyless_results_are_ordered_within_each_partition(outputs) -> None:
    output = outputs["o4"]
    orders = [0, 1 << ORDER_SHIFT, 1, (1 << ORDER_SHIFT) + 1]
    changes = pl.DataFrame({"v": list("abcd"), FROM: [1, 1, 2, 2], ORDER: orders, OP: ["+"] * 4})
    records = records_of(output, changes)
    assert [json.loads(value)["v"] for value in records.values] == list("acbd")
    assert records.partitions == [0, 0, 1, 1]
    assert records.headers == [[("dsms-ts", ts)] for ts in (b"1", b"2", b"1", b"2")]


def test_records_of_a_marked_result_name_the_cluster_and_no_executor(outputs) -> None:
    output = outputs["o3"]
    assert output.sink is not None
    marked = replace(output, sink=msgspec.structs.replace(output.sink, marked_by="main"))
    assert [headers[-1] for headers in records_of(marked, CHANGES).headers or ()] == [("dsms-by", b"main/results")] * 3
    filling = replace(output, sink=msgspec.structs.replace(output.sink, marked_by="main", fills="o9"))
    epoch = Epoch(Manifest(epoch=7), {"o3": QueryResult(filling, 42)}, (), (), {})
    (promised,) = result_heartbeats(epoch, Published({}, {}))
    assert promised.headers == [[("dsms-heartbeat", b"42"), ("dsms-by", b"main/results")]] * 2


class FullQueue:
    """A producer whose queue has room for `room` records until it is polled."""

    def __init__(self, room: int) -> None:
        self.room, self.held, self.produced = room, 0, []

    def produce(self, topic, value, key, partition, *rest) -> None:
        if self.held == self.room:
            raise BufferError
        self.held += 1
        self.produced.append((topic, value, key, partition, rest[-1]))

    def poll(self, _: float) -> None:
        self.held = 0


@pytest.mark.parametrize("room", [1, 3, 100])
def test_a_full_queue_loses_and_repeats_no_record(monkeypatch, room) -> None:
    monkeypatch.setattr(epoch_writer, "POLL_EVERY", 4)
    writer = object.__new__(epoch_writer.EpochWriter)
    writer._producer = FullQueue(room)
    count = 9
    values, keys = [bytes([at]) for at in range(count)], [None] * count
    headers = [[("h", bytes([at]))] for at in range(count)]
    writer.write(Records("t", keys, values, headers, list(range(count))))
    assert writer._producer.produced == [("t", values[at], None, at, headers[at]) for at in range(count)]


def test_dead_letters_carry_their_provenance() -> None:
    dead = (DeadRecord("T", 1, 9, "why", b"raw", None, "o1"), DeadRecord("T", 0, 2, "fault", b"{}", "Q", "o1"))
    source = Source(name="T", id="o1", sql="", columns=(), topic="topic-of-t")
    (records,) = dead_records(dead, {"o1": source})
    assert records.topic == "dsms.T.dead-letters"
    (elsewhere,) = dead_records(dead, {"o1": msgspec.structs.replace(source, own_dead_letter_topic="copy.letters")})
    assert elsewhere.topic == "copy.letters"
    assert list(records.keys) == [b"1/9", b"0/2"]
    assert list(records.values) == [b"raw", b"{}"]
    assert records.headers is not None
    assert dict(records.headers[0]) == {
        "dsms-error": b"why",
        "dsms-source": b"T",
        "dsms-source-id": b"o1",
        "dsms-topic": b"topic-of-t",
        "dsms-partition": b"1",
        "dsms-offset": b"9",
    }
    assert dict(records.headers[1])["dsms-query"] == b"Q"


def test_progress_says_what_is_published_and_is_read_back(outputs) -> None:
    epoch = Epoch(
        Manifest(epoch=7), {"o3": QueryResult(outputs["o3"], 42)}, (), (), {("o1", 0): WrittenDeadLetters(5, 2)}
    )
    written = progress_entries(epoch, Published({}, {}))
    assert set(written) == {b"dsms.Keyed/0", b"dsms.Keyed/1", b"dead/o1/0"}
    entries = [read_entry(Entry(key, value, 0, at)) for at, (key, value) in enumerate(written.items())]
    assert published_in_log(entries) == Published({"o3": 42}, {("o1", 0): WrittenDeadLetters(5, 2)})
    assert progress_entries(epoch, Published({"o3": 42}, {("o1", 0): WrittenDeadLetters(5, 2)})) == {}


def test_progress_of_a_query_that_was_dropped_is_forgotten(outputs) -> None:
    """A tombstone ends the progress of its key. The tombstone of one partition does not affect the others."""
    says = b'{"query": "o3", "frontier": 42, "epoch": 7}'
    entries = [read_entry(Entry(key, says, 0, 0)) for key in (b"dsms.Keyed/0", b"dsms.Keyed/1")]
    gone = [read_entry(Entry(key, None, 0, 1)) for key in (b"dsms.Keyed/0", b"dsms.Keyed/1")]
    assert published_in_log([*entries, gone[0]]).frontiers == {"o3": 42}
    assert published_in_log([*entries, *gone]).frontiers == {}
    dead = [read_entry(Entry(b"dead/o1/0", value, 0, 0)) for value in (b"[5,2]", None)]
    assert (
        published_in_log(dead[:1]).dead == {("o1", 0): WrittenDeadLetters(5, 2)} and published_in_log(dead).dead == {}
    )


def test_a_long_result_comes_in_pieces_in_its_one_order(outputs, monkeypatch) -> None:
    output = outputs["o3"]
    changes = pl.DataFrame(
        {
            "k": range(10),
            "v": list("abcdefghij"),
            FROM: range(10),
            ORDER: range(10),
            OP: ["+"] * 10,
        }
    )
    changes = changes.with_columns(pl.Series(MEMBER, [2] * 3 + [5] * 7))
    written = UnpublishedChanges(encode_changes(output, changes), {2: output, 3: output, 5: output})
    monkeypatch.setattr("dsms.runtime.epoch.result_records.PIECE_ROWS", 4)
    pieces = [columns.rows() for columns in result_records(written)]
    assert [len(piece.values) for piece in pieces] == [3, 1, 4, 2]
    assert [json.loads(key)["k"] for piece in pieces for key in piece.keys] == list(range(10))
    assert [header for piece in pieces for header in piece.headers] == [[("dsms-ts", b"%d" % at)] for at in range(10)]
