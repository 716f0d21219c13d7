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
from connectors.state.store import Claim
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.epoch.commit import Committer
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.fault_points import FaultPoints
from dsms.runtime.epoch.progress_log import Published, WrittenDeadLetters
from dsms.runtime.lanes.manifest import Manifest
from dsms.state.stores import StateAddress
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
        state = StateAddress(redis_url, unique).open()
        stores = state.manifest("0"), state.runs("0", tmp_path / f"{lease}-{time_ms}")
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
    return lambda: {entry.key: entry.value for entry in log.read(lambda entry: entry, decided=True)}[b"dead/s/0"]


def commit(owner: Committer, epoch: int) -> None:
    done = Epoch(Manifest(epoch=epoch, targets=1), {}, (), (), {("s", 0): WrittenDeadLetters(epoch, 1)})
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
    recovered = newer.recover(FragmentPlan(0, 1))
    assert (recovered.manifest.epoch, recovered.lost, recovered.restored) == (1, "", False)
    commit(newer, 2)
    assert not newer.in_doubt
    assert dead_upto() == b"[2,1]"
    with pytest.raises(Fenced):
        commit(older, 3)
    assert older.replaced()


def test_a_recovery_shows_why_the_state_could_not_be_used(owner: Owner, dead_upto: Callable[[], bytes]) -> None:
    recovered = owner(6, 50).recover(FragmentPlan(0, 1))
    assert (recovered.manifest.epoch, recovered.lost) == (0, ""), "a new fragment has lost nothing"
    commit(owner(7, 100), 1)
    rebuilt = owner(8, 200).recover(FragmentPlan(0, 2), targets=2)
    assert (rebuilt.manifest.epoch, rebuilt.lost, rebuilt.restored) == (1, "it was stored for 1 targets, not 2", False)
    copy = Manifest(epoch=1, targets=3)
    restored = owner(9, 300).recover(FragmentPlan(0, 3), lambda *_: copy, targets=3)
    assert (restored.manifest, restored.lost, restored.restored) == (copy, "it was stored for 1 targets, not 3", True)


def test_owner_fenced_by_an_older_one_is_not_replaced(
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
