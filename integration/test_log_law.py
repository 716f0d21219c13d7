"""The log law: what is written is a function of the input logs, however batches, targets and restarts fall."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import Cluster, kill_9, running
from kafka_log import advance, write
from kafka_topics import create_topic
from workload import END, PARTITIONS, VIEWS, Outcome, assert_same, await_all, outcome, register, result_topic, workload

from dsms.local.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
SEED = 20260101
COUNT = 600


@dataclass(frozen=True)
class Variant:
    """How a run is cut: targets of the exchange, the most records of a batch, how often the executor is killed, and the
    policy of its scheduler with the seconds that a batch may take."""

    targets: int
    batch_records: int
    kills: int = 0
    policy: str = "fifo"
    batch_seconds: float = 20


@dataclass(frozen=True)
class Setting:
    """Where all runs take place, and what the first of them wrote."""

    kafka: str
    redis_url: str
    topic: str
    first: Outcome


@pytest.fixture(scope="module")
def setting(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    topic = create_topic(kafka, f"log-law-{tmp_path_factory.mktemp('x').parent.name}", partitions=PARTITIONS)
    write(kafka, topic, workload(SEED, COUNT))
    advance(kafka, topic, END, PARTITIONS)
    place = Setting(kafka, redis_url, topic, Outcome({}, []))
    first = run(place, tmp_path_factory.mktemp("first"), Variant(targets=1, batch_records=1_000_000))
    yield Setting(kafka, redis_url, topic, first)


def run(place: Setting, directory: Path, variant: Variant) -> Outcome:
    """One run from the beginning of the logs, in a cluster of its own."""
    with running(place.kafka, place.redis_url, directory) as cluster:
        register(cluster, place.topic, cluster.name)
        executor = start(cluster, variant)
        for number in range(variant.kills):
            await_random_moment(cluster, random.Random(SEED + number))
            kill_9(executor)
            executor = start(cluster, variant)
        await_all(cluster, cluster.name)
        return outcome(place.kafka, cluster.name)


def start(cluster: Cluster, variant: Variant):
    return cluster.start_executor(
        partitions=variant.targets, batch_records=variant.batch_records, policy=variant.policy,
        batch_seconds=variant.batch_seconds,
    )  # fmt: skip


def await_random_moment(cluster: Cluster, chance: random.Random) -> None:
    """Returns when a random view has come a random way."""
    topic = result_topic(cluster.name, chance.choice(VIEWS))
    before = max(cluster.frontier(topic), 0)
    goal = min(before + chance.randrange(1, COUNT // 3), END)
    assert wait_until(lambda: cluster.frontier(topic) >= goal, 150, pause_s=0.05), cluster.logs()


def test_the_workload_meets_every_case(setting: Setting):
    reasons = " ".join(value for one in setting.first.dead for name, value in one.headers if name == "dsms-error")
    assert all(word in reasons for word in ("late", "division", "NOT NULL", "JSON", "needs a key"))
    for view, found in setting.first.results.items():
        assert {one.op for one in found} == ({"+"} if view.startswith("flat") else {"+", "u", "-"}), view
        assert {one.partition for one in found} == set(range(PARTITIONS))
    assert len(setting.first.dead) > 50


@pytest.mark.parametrize(
    "variant",
    [
        Variant(targets=2, batch_records=1_000_000),
        Variant(targets=3, batch_records=37),
        Variant(targets=2, batch_records=60, kills=3, policy="round_robin", batch_seconds=0.001),
    ],
    ids=["two targets", "three targets and small batches", "stages that wait, and kills at random moments"],
)
def test_every_cut_gives_the_same_logs(setting: Setting, tmp_path: Path, variant: Variant):
    assert_same(run(setting, tmp_path, variant), setting.first)


def test_a_restart_with_another_number_of_targets(setting: Setting, tmp_path: Path):
    with running(setting.kafka, setting.redis_url, tmp_path) as cluster:
        register(cluster, setting.topic, cluster.name)
        executor = start(cluster, Variant(targets=3, batch_records=40))
        await_random_moment(cluster, random.Random(SEED))
        kill_9(executor)
        start(cluster, Variant(targets=1, batch_records=300))
        await_all(cluster, cluster.name)
        assert_same(outcome(setting.kafka, cluster.name), setting.first)
