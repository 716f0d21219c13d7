"""Two executors that both believe they own a fragment: the one with the newer lease owns it, in any order of claims."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import COMPACTED_SOON, ensure_topic
from connectors.kafka.logs.internal_log import InternalLog
from connectors.redis.client import connect
from connectors.redis.manifest import Claim, ManifestStore
from connectors.redis.run_store import RunStore
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.epoch.commit import Committer
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.fault_points import FaultPoints
from dsms.runtime.epoch.progress_log import DeadMark, Published
from dsms.runtime.lanes.manifest import Manifest
from operators.core.errors import ExternalError, Fenced

pytestmark = pytest.mark.services
Owner = Callable[[int, int], Committer]


@pytest.fixture
def settings(kafka: str, unique: str) -> KafkaSettings:
    settings = KafkaSettings(kafka)
    ensure_topic(settings.admin(), internal_topic(unique, "progress"), 1, COMPACTED_SOON)
    return settings


@pytest.fixture
def owner(settings: KafkaSettings, redis_url: str, unique: str, tmp_path: Path) -> Iterator[Owner]:
    """Creates owners of the fragment: `owner(lease, time_ms)` claims it with a lease and the time of its clock."""

    def made(lease: int, time_ms: int) -> Committer:
        client = connect(redis_url)
        stores = ManifestStore(client, unique, "0"), RunStore(client, unique, "0", tmp_path / f"{lease}-{time_ms}")
        progress = InternalLog(settings, unique, "progress", Alarms())
        committer = Committer(settings, progress, "0", stores, FaultPoints(""), Claim(lease, time_ms))
        opened.callback(committer.close)
        return committer

    with ExitStack() as opened:
        yield made


@pytest.fixture
def dead_upto(settings: KafkaSettings, unique: str) -> Callable[[], bytes]:
    """Returns a function that reads the last committed progress of the dead letters."""
    log = InternalLog(settings, unique, "progress", Alarms())
    return lambda: {entry.key: entry.value for entry in log.read(lambda entry: entry)}[b"dead/s/0"]


def commit(owner: Committer, epoch: int) -> None:
    done = Epoch(Manifest(epoch=epoch, targets=1), {}, (), (), {("s", 0): DeadMark(epoch, 1)})
    owner.commit(done, {}, Published({}, {}))


def test_outdated_lease_does_not_fence_the_newer_owner(owner: Owner, dead_upto: Callable[[], bytes]) -> None:
    """The executor read the lease and was frozen before it began. Meanwhile another executor claimed the fragment."""
    newer = owner(8, 100)
    with pytest.raises(Fenced):
        owner(7, 200)
    commit(newer, 1)
    assert not newer.replaced()
    assert dead_upto() == b"[1,1]"


def test_newer_of_two_owners_with_the_same_lease_wins(owner: Owner, dead_upto: Callable[[], bytes]) -> None:
    """The newer one wins even if its clock is behind. The older one learns that it was replaced."""
    older, newer = owner(7, 200), owner(7, 100)
    commit(newer, 1)
    with pytest.raises(Fenced):
        commit(older, 2)
    assert older.replaced()
    assert not newer.replaced()
    assert dead_upto() == b"[1,1]"


def test_owner_with_a_newer_lease_takes_over(owner: Owner, dead_upto: Callable[[], bytes]) -> None:
    older = owner(7, 200)
    commit(older, 1)
    newer = owner(8, 100)
    assert newer.recover(FragmentPlan(0, 1)).manifest.epoch == 1
    commit(newer, 2)
    assert dead_upto() == b"[2,1]"
    with pytest.raises(Fenced):
        commit(older, 3)
    assert older.replaced()


def test_newer_owner_fenced_by_an_older_one_claims_the_fragment_again(
    owner: Owner, redis_url: str, unique: str, dead_upto: Callable[[], bytes]
) -> None:
    """Redis has lost the newer lease, so that the older one could claim the fragment. The newer one claims it again."""
    newer = owner(8, 100)
    connect(redis_url).delete(*connect(redis_url).keys(f"*{unique}*manifest"))
    older = owner(7, 200)
    with pytest.raises(ExternalError):
        commit(newer, 1)
    assert not newer.replaced()
    again = owner(8, 300)
    commit(again, 2)
    assert older.replaced()
    assert dead_upto() == b"[2,1]"


def test_a_commit_that_comes_late_does_not_bring_an_older_epoch_back(redis_url: str, unique: str) -> None:
    client, claim = connect(redis_url), Claim(1, 1)
    store, late = ManifestStore(client, unique, "0"), ManifestStore(client, unique, "0")
    store.claim(claim)
    store.commit(claim, b"first")
    store.commit(claim, b"second")
    late.commit(claim, b"first")  # a request that the store has sent before
    assert store.read() == (claim, b"second")
    newer = Claim(1, 2)
    late.claim(newer)
    late.commit(newer, b"third")
    assert store.read() == (newer, b"third")
    with pytest.raises(Fenced):
        store.commit(claim, b"fourth")
