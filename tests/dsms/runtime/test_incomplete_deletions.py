"""A record without a value deletes the row with its key. A key that lacks columns of the stream's key identifies no
row."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from confluent_kafka import Message

from connectors.kafka.records.log_pieces import MessagePiece
from dsms.model.objects import Query
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.incomplete_deletions import without_incomplete_deletions
from dsms.runtime.stages.intake import in_sequence
from dsms.runtime.stages.lane_step import read_stage
from dsms.runtime.stages.record_reading import arrivals_of, intake_of
from operators.core.clock import PartitionClock
from operators.core.delta import ORDER, WEIGHT, origin
from operators.core.operator import FAULT
from tests.support.fake_environment import apply_all

WRITER = {"type": "record", "name": "K", "fields": [{"name": "Room", "type": ["null", "string"]}]}
OTHER = {"type": "record", "name": "K", "fields": [{"name": "t", "type": "int"}]}
#: Keys of deletions, and the columns of the stream's key that they lack.
JSON = [
    (b'{"room": "a"}', ""),
    (b'{"Room": null}', ""),
    (b'{"t": 5}', "room"),
    (b"{}", "room"),
    (b'{"rooms": "a"}', "room"),
]
DEBEZIUM = [
    (b'{"schema": {}, "payload": {"room": "a"}}', ""),
    (b'{"schema": {}, "payload": {"id": 1}}', "room"),
    (b'{"t": 1}', "room"),
]
AVRO = [(b"\0\0\0\0\7\2\2a", ""), (b"\0\0\0\0\7\0", ""), (b"\0\0\0\0\x08\2", "room")]
FRAMED = [(b"\0\0\0\0\7" + key, lacking) for key, lacking in JSON]
CASES = {"JSON": JSON, "DEBEZIUM": DEBEZIUM, "AVRO": AVRO, "DEBEZIUM_AVRO": AVRO, "JSON_SCHEMA": FRAMED}


def declared(form: str, columns: str) -> str:
    """A keyed stream, and another one without a key, over one source."""
    return (
        f"REGISTER SOURCE T (room VARCHAR, t INT) FROM t FORMAT {form}; CREATE STREAM S OVER T KEY {columns};"
        "CREATE STREAM Log OVER T KEY NULL; CREATE VIEW V AS SELECT room, t FROM S"
    )


def records_exchange(lane: Lane, leaf: int) -> int:
    """The exchange that carries the records of a source."""
    producers = [lane.flow.vertices[exchange.producer] for exchange in lane.flow.exchanges]
    (found,) = [at for at, each in enumerate(producers) if leaf in each.leaves and each.leaf in (None, leaf)]
    return found


def deletions(
    form: str, keys: list[bytes], statements: str, first: Mapping[int, int] | None = None
) -> tuple[list[int], dict[int, str]]:
    """The offsets of the deletions that the source stage passes on, and the reasons why it refuses others. With
    `first`, the view reads the partitions from these offsets on."""
    catalog, _ = apply_all(statements)
    if first is not None:
        view = catalog.find("V")
        assert isinstance(view, Query)
        catalog = catalog.with_changed(msgspec.structs.replace(view, first_offsets=dict.fromkeys(view.reads, first)))
    lane = compile_lane("lane", plan_fragment(catalog, 1).queries.values())
    leaf, source = next((leaf, source) for leaf, source in lane.sources.items() if source.name == "T")
    records = [
        Message(topic="t", partition=3, offset=at, value=None, key=key, timestamp=(1, 7)) for at, key in enumerate(keys)
    ]
    arrivals = arrivals_of(source, 3, MessagePiece(records), ())
    intake = intake_of(source, {7: WRITER, 8: OTHER}.__getitem__)
    halves = [intake.admit(half, PartitionClock()) for half in arrivals.halves()]
    admitted = in_sequence(halves)
    step = without_incomplete_deletions(lane, leaf, read_stage(lane, leaf, admitted.delta), admitted.absent)
    sent, faults = step.sent[records_exchange(lane, leaf)], [frame for frame in step.faults.values() if frame.height]
    assert all(vertex in lane.reported[lane.outputs[0].id] for vertex in step.faults)
    refused = {origin(order)[2]: reason for frame in faults for order, reason in frame.select(ORDER, FAULT).iter_rows()}
    assert set(sent.frame[WEIGHT]) <= {-1}
    return [origin(order)[2] for order in sent.frame[ORDER]], refused


@pytest.mark.parametrize("form", CASES)
def test_a_key_without_the_columns_of_the_streams_key_is_refused_and_one_that_is_null_is_not(form: str) -> None:
    keys, lacking = zip(*CASES[form], strict=True)
    sent, refused = deletions(form, list(keys), declared(form, "room"))
    assert sent == [at for at, missing in enumerate(lacking) if not missing]
    reason = 'a deletion whose record key lacks "room", a part of the stream\'s key'
    assert refused == {at: reason for at, missing in enumerate(lacking) if missing}


def test_each_column_of_the_key_counts_and_no_other() -> None:
    keys = [b'{"room": "a"}', b'{"room": "a", "t": null}', b'{"x": 1}']
    sent, refused = deletions("JSON", keys, declared("JSON", "(room, t)"))
    assert sent == [1]
    assert refused[0].startswith('a deletion whose record key lacks "t",')
    assert refused[2].startswith('a deletion whose record key lacks "room", "t",')


_STREAM = "CREATE STREAM S OVER T KEY room"
#: Declarations for which something stands between the source and the tagger, or around the tagger.
BETWEEN = {
    "a start": f"REGISTER SOURCE T (room VARCHAR, t INT) FROM t; {_STREAM};"
    "CREATE VIEW V WITH (start = 3) AS SELECT room, t FROM S",
    "a filter": f"REGISTER SOURCE T (room VARCHAR, t INT) FROM t; {_STREAM};"
    "CREATE VIEW V AS SELECT room, t FROM S WHERE room IS NULL OR room < 'b'",
    "a limited key": "REGISTER SOURCE T (room BIGINT, t INT) FROM t CONSTRAINT ORDERED BY room WITHIN 9; "
    f"{_STREAM}; CREATE VIEW V AS SELECT room, t FROM S",
    "clustered": "REGISTER SOURCE T (room VARCHAR, t INT) FROM t CONSTRAINT CLUSTERED BY room WITHIN 9; "
    f"{_STREAM}; CREATE VIEW V AS SELECT room, t FROM S",
    "a reference": "REGISTER SOURCE U (id VARCHAR, t INT) FROM u PARTITIONS 1 CONSTRAINT CLUSTERED BY id WITHIN 9; "
    "REGISTER SOURCE T (room VARCHAR, t INT) FROM t CONSTRAINT room REFERENCES U (id) WITHIN 9; "
    f"{_STREAM}; CREATE VIEW V AS SELECT room, t FROM S",
}


@pytest.mark.parametrize("case", BETWEEN)
def test_whatever_is_between_source_and_tagger_it_is_refused(case: str) -> None:
    keys = [b'{"room": null}', b'{"t": 5}']
    sent, refused = deletions("JSON", keys, BETWEEN[case])
    assert (sent, list(refused)) == ([0], [1])


def test_first_offsets_do_not_matter() -> None:
    statements = declared("JSON", "room")
    assert deletions("JSON", [b'{"t": 5}', b'{"t": 5}', b'{"room": null}'], statements, {3: 1}) == (
        [2],
        {1: 'a deletion whose record key lacks "room", a part of the stream\'s key'},
    )
