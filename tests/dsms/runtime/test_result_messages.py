"""Result messages of a target stage: a result that cannot be written fails only its query."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Message

from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.stages.result_messages import ResultEncoding
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, start

SQL = """REGISTER SOURCE T (k INT, s TEXT) FROM t; CREATE STREAM S OVER T KEY NULL;
    CREATE STREAMED VIEW Short AS SELECT k FROM S;
    CREATE STREAMED VIEW Long AS SELECT k, s FROM S;
    CREATE STREAMED VIEW Lengths AS SELECT k, MAX(LENGTH(s)) AS n FROM S GROUP BY k"""
MOST = 5_000
#: The number of characters around the text in {"k":0,"s":""}.
AROUND = 14


def ran(piece: int, *lengths: int, most_to_driver: int | None = None) -> tuple[dict[str, str], dict[str, int]]:
    """Runs views over records with texts of these lengths, and encodes `piece` records at a time. Returns the reasons
    of the failed views, and the number of records of the others."""
    log = [message(at, "x" * length) for at, length in enumerate(lengths)]
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    revision = start(catalog, 1)
    names = {query.id: query.name for query in revision.plan.queries.values()}
    world, encoding = (
        World({"t": {0: log}}, most_to_driver=most_to_driver),
        ResultEncoding(piece=piece, most_bytes=MOST),
    )
    done: Epoch = epoch(world, revision, 100, 1, results=encoding)
    counts = {
        output.name: written.changes.height for written in done.unpublished for output in written.outputs.values()
    }
    return {names[query]: why for query, why in done.failures.items()}, counts


def message(at: int, text: str) -> Message:
    value = json.dumps({"k": at, "s": text}).encode()
    return Message(topic="t", partition=0, offset=at, key=None, value=value, headers=[], timestamp=(1, at))


pieces = pytest.mark.parametrize("piece", [1, 3, 100])


@pieces
def test_rows_that_are_large_together_are_written(piece: int) -> None:
    failures, counts = ran(piece, *[MOST - AROUND] * 4, 1)
    assert failures == {}
    assert counts == {"Short": 4, "Long": 4, "Lengths": 4}


@pieces
def test_row_that_is_too_large_fails_only_its_query(piece: int) -> None:
    failures, counts = ran(piece, 1, MOST - AROUND, MOST - AROUND + 1, 1)
    assert failures == {"Long": "a result row at instant 2 is too large: 5,001 bytes, at most 5,000 can be written"}
    assert counts == {"Short": 3, "Lengths": 3}


@pieces
def test_more_than_the_driver_takes_of_a_task_ends_the_task(piece: int) -> None:
    """The limit is for the results of all views of a target together. The search for the culprit is the same as after
    the death of a worker."""
    lengths = [1_000] * 20
    assert ran(piece, *lengths, most_to_driver=40_000)[0] == {}
    with pytest.raises(MemoryError, match="a task sends more than the 10,000 bytes that the driver accepts from it"):
        ran(piece, *lengths, most_to_driver=10_000)
