"""The executor's parts over a real Redis: results are the same under every limit of state in Redis, after crashes and
the loss or damage of disks, and the limit is never exceeded."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import polars as pl
import pytest
import redis
from confluent_kafka import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.redis.client import connect, key
from connectors.redis.runs import RedisRuns
from connectors.runs import run_cache
from dsms.local.installed import local_redis
from dsms.model.catalog import Catalog
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.query_state import limited_runs
from dsms.runtime.lanes.revision import revised
from dsms.runtime.stages.stage_runs import BackgroundRuns
from operators.core.errors import ExternalError
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, start

pytestmark = pytest.mark.services
SQL = """REGISTER SOURCE S (k BIGINT, v BIGINT) FROM t TAGGED NONE; CREATE STREAM T OVER S KEY NULL;
CREATE QUERY Q AS SELECT k, COUNT(*) AS n, MAX(v) AS m FROM T GROUP BY k;
CREATE QUERY J AS SELECT A.k, A.v, B.v AS w FROM T A JOIN T B ON A.k = B.k WHERE A.v < B.v"""
CATALOG, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
#: The catalog with limits for the state that J and Q do not share: J's join and Q's groups.
LIMITED, _ = apply_all("ALTER QUERY J SET (state_memory = '4 KB'); ALTER QUERY Q SET (state_memory = 0)", CATALOG)
FRAGMENT = "0"
_numbers = count()
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), min_size=1, max_size=30)
LIMIT = st.sampled_from([None, 0, 3_000, 6_000, 20_000])
EVENT = st.sampled_from(["", "", "", "crash", "lost manifest", "lost disk", "damaged disk"])


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = local_redis(tmp_path_factory.mktemp("redis"), os.environ)
    server.start()
    yield server.url
    server.kill()


@dataclass
class Fragment:
    """A fragment that commits like an executor. Its manifest is the one stored in Redis."""

    world: World
    client: redis.Redis
    directory: Path
    catalog: object
    targets: int
    cluster: str = field(default_factory=lambda: f"limits{next(_numbers)}")
    #: The bytes in Redis before: a smaller limit takes effect with the next commit.
    most: int = 0

    def __post_init__(self) -> None:
        self.manifest = Manifest(targets=self.targets)
        self.revision = start(self.catalog, self.targets)  # type: ignore[arg-type]

    def store(self, limit: int | None) -> RedisRuns:
        return RedisRuns(self.client, self.cluster, FRAGMENT, self.directory, limit)

    def turn(self, limit: int | None, event: str, records: int) -> bool:
        """Runs one epoch and the event after it; returns whether anything was left to do."""
        store = self.store(limit)
        self.revision = revised(self.revision.plan, self.manifest, (), self.revision)
        try:
            done = epoch(self.world, self.revision, records, 1, store=BackgroundRuns(store))
        except ExternalError:  # the only copy of a run was on the damaged disk
            self.recover(store)
            return True
        self.holds(limit)
        if event == "crash":
            self.recover(store)
            return True
        publish(self.world, done)
        if event == "lost manifest":
            self.recover(store)
            return True
        before, self.manifest = self.manifest.names(), done.manifest
        store.delete(before - self.manifest.names())
        parts = list(limited_runs(self.revision, self.manifest))
        run_locations = store.spill(self.manifest.names(), limit, parts)
        assert all(sum(run_locations.resident.get(name, 0) for name in part.names) <= part.limit for part in parts)
        assert run_locations.resident.keys() | run_locations.disk.keys() == self.manifest.names()
        self.holds(limit)
        if event == "lost disk":
            shutil.rmtree(self.directory, ignore_errors=True)
            self.recover(store)
        if event == "damaged disk":
            self.damage()
        return bool(done.results)

    def damage(self) -> None:
        """Flips a bit in every other file of state."""
        for file in sorted(self.directory.iterdir())[::2]:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 16
            file.write_bytes(content)

    def recover(self, store: RedisRuns) -> None:
        names = self.manifest.names()
        if not store.all_exist(names):
            self.manifest = Manifest(epoch=self.manifest.epoch, targets=self.targets)
        store.sweep(self.manifest.names())
        left = {name for name in self.keys() if name.rsplit(":", 1)[-1] not in self.manifest.names()}
        assert not left
        assert len(list(self.directory.glob("*"))) <= len(self.manifest.names())

    def keys(self) -> list[str]:
        return [name.decode() for name in self.client.scan_iter(key(self.cluster, FRAGMENT, "run", "") + "*")]

    def holds(self, limit: int | None) -> None:
        """Asserts that the runs in Redis are within the limit, and not larger than accounted."""
        there = sum(len(piece) for name in self.keys() for piece in self.client.hvals(name))  # type: ignore[union-attr]
        account = {name: int(size) for name, size in self.client.hgetall(f"dsms:{{{self.cluster}/0}}:resident").items()}
        total = account.pop(b"", 0)
        assert there <= total == sum(account.values())
        assert limit is None or there <= max(limit, self.most)
        self.most = there


def message(offset: int, k: int, v: int) -> Message:
    body = json.dumps({"k": k, "v": v}).encode()
    return Message(topic="t", partition=0, offset=offset, key=None, value=body, timestamp=(1, offset))


def finished(fragment: Fragment, events: list[tuple[int | None, str]], records: int) -> World:
    more, turns = True, iter(events)
    limit: int | None = None
    for _ in range(200):
        limit, event = next(turns, (limit, ""))
        more = fragment.turn(limit, event, records)
        if not more and not event:
            return fragment.world
    raise AssertionError("the log was never read to its end")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ROWS,
    st.lists(st.tuples(LIMIT, EVENT), max_size=6),
    st.tuples(st.integers(1, 2), st.integers(5, 12)),
    st.sampled_from([CATALOG, LIMITED]),
)
def test_results_are_the_same_under_every_limit(
    redis_url: str,
    tmp_path: Path,
    rows: list[tuple[int, int]],
    events: list[tuple[int | None, str]],
    sizes: tuple[int, int],
    catalog: Catalog,
) -> None:
    targets, records = sizes
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    world = World({"t": {0: [message(at, *row) for at, row in enumerate(rows)]}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_cache, "flush_to_disk", lambda _: None)  # there is no power failure in this test
        fragment = Fragment(world, connect(redis_url), tmp_path / "cache", catalog, targets)
        finished(fragment, events, records)
    names = {query.id: query.name for query in fragment.catalog.running()}  # type: ignore[attr-defined]
    final = rows[:-1]  # the instant of the last record is not final
    counts = Counter(k for k, _ in final)
    expected = {k: (k, n, max(v for other, v in final if other == k)) for k, n in counts.items()}
    groups: dict[int, tuple[int, int, int]] = {}
    joined: Counter[tuple[int, int, int]] = Counter()
    for log, listed in world.written.items():
        for record in listed:
            row = json.loads(record[1])
            if names[log.split("/")[0]] == "Q":
                groups[row["k"]] = (row["k"], row["n"], row["m"])
            else:
                assert not record[2] or b"-" not in dict(record[2]).values()
                joined[(row["k"], row["v"], row["w"])] += 1
    assert groups == expected
    assert joined == Counter((k, v, w) for k, v in final for other, w in final if k == other and v < w)


def test_a_query_limits_what_it_shares_with_nobody(redis_url: str, tmp_path: Path) -> None:
    """J owns its join and Q its groups, but not the state that both read; two equal queries own no state."""
    twin = "CREATE QUERY R AS SELECT k, COUNT(*) AS n, MAX(v) AS m FROM T GROUP BY k"
    shared, _ = apply_all(f"{twin}; ALTER QUERY R SET (state_memory = 0)", LIMITED)
    for catalog, expected in ((LIMITED, {"J", "Q"}), (shared, {"J"})):
        world = World({"t": {0: [message(at, at % 3, at) for at in range(40)]}})
        fragment = Fragment(world, connect(redis_url), tmp_path / "cache", catalog, 1)
        finished(fragment, [], 15)
        parts = list(limited_runs(fragment.revision, fragment.manifest))
        owned = [part.names for part in parts if part.names]
        assert len(owned) == len(expected) and len(frozenset.union(*owned)) == sum(map(len, owned))
        assert frozenset.union(*owned) < fragment.manifest.names()


def test_a_run_that_is_nowhere_is_an_error_and_makes_recovery_rebuild(redis_url: str, tmp_path: Path) -> None:
    store = RedisRuns(connect(redis_url), "nowhere", FRAGMENT, tmp_path, 0)
    store.write({"1/a": pl.DataFrame({"k": [1, 2]})})
    assert store.all_exist(["1/a"]) and store.read("1/a")["k"].to_list() == [1, 2]
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ExternalError, match=r'"1/a" is neither in redis nor on this host'):
        store.read("1/a")
    assert not store.all_exist(["1/a"])
