"""A query is dropped and another one created under its name while the executor of the first query is frozen in the
middle of a transaction: no record of the first query gets into the topic of the second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import TopicRecreated
from connectors.kafka.client.names import PROGRESS, internal_topic
from connectors.kafka.client.topics import COMPACTED_SOON, delete_topic, ensure_topic, topic_ids
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.records import column_writer
from connectors.native.library import missing
from connectors.state.store import Claim
from dsms.local.waiting import wait_until
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.planner.physical.lane import Output
from dsms.runtime.epoch.commit import Committer
from dsms.runtime.epoch.epoch import Epoch, QueryResult, UnpublishedChanges
from dsms.runtime.epoch.fault_points import FaultPoints
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.stages.encoding import encode_changes
from dsms.state.stores import StateAddress
from integration.kafka_log import changes, last_values, settled
from operators.core.delta import FROM, ORDER
from operators.streams.stream_output import OP
from tests.support.fake_environment import apply_all

pytestmark = pytest.mark.services
SQL = """
    REGISTER SOURCE T (k INT, v VARCHAR) FROM t; CREATE STREAM S OVER T KEY k;
    CREATE STREAMED VIEW Q AS SELECT k, v FROM S
"""
CHANGES = pl.DataFrame({"k": [1, 2], "v": ["a", "b"], FROM: [4, 7], ORDER: [0, 1], OP: ["+", "+"]})


class StandingStill(FaultPoints):
    """Calls a function at a fault point, as if the process were frozen there meanwhile."""

    def __init__(self, point: str, meanwhile: Callable[[], None]) -> None:
        super().__init__("")
        self.point, self.meanwhile = point, meanwhile

    def hit(self, point: str) -> None:
        if point == self.point:
            self.meanwhile()


class World:
    """A fragment with one query, whose result topic belongs to the test alone."""

    def __init__(self, kafka: str, redis_url: str, unique: str, directory: Path) -> None:
        self.kafka, self.settings, self.unique = kafka, KafkaSettings(kafka), unique
        self.admin, self.redis_url, self.directory = self.settings.admin(), redis_url, directory
        self.topic, self.progress = f"{unique}.q", internal_topic(unique, PROGRESS)
        ensure_topic(self.admin, self.progress, 1, COMPACTED_SOON)
        ensure_topic(self.admin, self.topic, 1)

    def recreate(self) -> None:
        """Deletes the topic and creates it again, as DROP and CREATE do."""
        delete_topic(self.admin, self.topic)
        assert wait_until(lambda: self.topic not in self.admin.list_topics().topics, 120)
        ensure_topic(self.admin, self.topic, 1)

    def output(self, *, known: bool) -> Output:
        """The output of the query, with the current id of its topic if `known`."""
        plan = plan_fragment(apply_all(SQL)[0], 1)
        (output,) = compile_lane("lane", plan.queries.values()).outputs
        assert output.sink is not None
        id = topic_ids(self.admin, [self.topic])[self.topic] if known else None
        return replace(output, sink=msgspec.structs.replace(output.sink, topic=self.topic, topic_id=id, partitions=1))

    def committer(self, lease: int, faults: FaultPoints) -> Committer:
        state = StateAddress(self.redis_url, self.unique).open()
        stores = state.manifest("0"), state.runs("0", self.directory)
        progress = InternalLog(self.settings, self.unique, PROGRESS, Alarms())
        return Committer(self.settings, progress, "0", stores, faults, Claim(lease, lease))

    def published(self) -> list[bytes | None]:
        """Waits until no transaction is open, and returns the values that readers of the topic see."""
        assert wait_until(lambda: settled(self.kafka, [self.topic, self.progress]), 120)
        return [change.value for change in changes(self.kafka, self.topic)]


def epoch(output: Output, number: int, rows: pl.DataFrame) -> Epoch:
    written = UnpublishedChanges(encode_changes(output, rows), {None: output})
    return Epoch(Manifest(epoch=number, targets=1), {output.id: QueryResult(output, 10 * number)}, (written,), (), {})


@pytest.fixture(params=["columns", "messages"])
def world(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    kafka: str,
    redis_url: str,
    unique: str,
    tmp_path: Path,
) -> World:
    if request.param == "messages":
        monkeypatch.setattr(column_writer, "library", lambda: None)
    elif why := missing():
        pytest.skip(why)
    return World(kafka, redis_url, unique, tmp_path)


@pytest.mark.parametrize("rows", [CHANGES, CHANGES.clear()], ids=["results", "progress"])
@pytest.mark.parametrize("point", ["begun", "written"])
def test_dropped_query_writes_nothing_to_the_topic_of_its_successor(
    world: World, point: str, rows: pl.DataFrame
) -> None:
    """This holds for its progress too, which would replace that of the next query."""
    output = world.output(known=True)
    old = world.committer(1, StandingStill(point, world.recreate))
    with pytest.raises(
        TopicRecreated, match=f'topic "{world.topic}" was deleted and created again, so query "Q"'
    ) as error:
        old.commit(epoch(output, 1, rows), {}, Published({}, {}))
    assert list(error.value.queries) == [output.id]
    old.close()
    new = world.committer(2, FaultPoints(""))
    assert (world.published(), last_values(world.kafka, world.progress)) == ([], {})
    after = new.commit(epoch(world.output(known=True), 2, CHANGES), {}, Published({}, {}))
    assert after.upto(output.id) == 20
    assert world.published() == [b'{"k":1,"v":"a"}', b'{"k":2,"v":"b"}']
    new.close()


def test_the_topic_of_a_query_without_an_id_is_the_one_that_it_wrote_at_first(world: World) -> None:
    """Earlier versions did not store the ids of topics."""
    output = world.output(known=False)
    committer = world.committer(1, FaultPoints(""))
    published = committer.commit(epoch(output, 1, CHANGES), {}, Published({}, {}))
    world.recreate()
    with pytest.raises(TopicRecreated):
        committer.commit(epoch(output, 2, CHANGES.with_columns(pl.col(FROM) + 10)), {}, published)
    committer.close()
    world.committer(2, FaultPoints("")).close()
    assert world.published() == []


def test_a_topic_that_is_gone_ends_nothing(world: World) -> None:
    """Nothing reads a deleted topic, so that an epoch with nothing for it succeeds."""
    output = world.output(known=True)
    committer = world.committer(1, StandingStill("committed", lambda: None))
    committer.commit(epoch(output, 1, CHANGES), {}, Published({}, {}))
    delete_topic(world.admin, world.topic)
    after = committer.commit(epoch(output, 2, CHANGES.clear()), {}, Published({}, {}))
    assert after.upto(output.id) == 20
    committer.close()
