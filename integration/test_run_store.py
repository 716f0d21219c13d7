"""Damaged files of runs are detected, and replaced by the copies in a real Redis."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import redis

from connectors.alarms import Alarms
from connectors.redis.runs import RedisRuns
from connectors.runs.run_cache import RunCache
from dsms.executor.scrubbing import Scrubbing
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

pytestmark = pytest.mark.services
FRAME = pl.DataFrame({"k": ["a", None], "n": [1, 2]})


@pytest.fixture
def cluster() -> str:
    return uuid.uuid4().hex


def store(redis_url: str, cluster: str, cache: Path, limit: int | None = None) -> RedisRuns:
    return RedisRuns(redis.Redis.from_url(redis_url), cluster, "0", cache, limit)


NAMES = [f"1/{number}" for number in range(30)]
LARGE = pl.DataFrame({"k": range(20_000), "v": [at * 37 for at in range(20_000)]})


def flip_a_bit(content: bytearray, draw: random.Random) -> None:
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def zero_half_a_kilobyte(content: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(content) // 512) * 512
    content[at : at + 512] = bytes(512)


def damage_files(directory: Path, damage: Callable[[bytearray, random.Random], None], times: int) -> set[str]:
    """Damages files at random positions; returns the names of the changed runs."""
    draw, changed = random.Random(48), set()
    files = sorted(directory.iterdir())
    for _ in range(times):
        file = draw.choice(files)
        content = bytearray(file.read_bytes())
        damage(content, draw)
        if content != file.read_bytes():
            changed.add(file.stem.replace("_", "/"))
        file.write_bytes(content)
    return changed


@pytest.mark.parametrize("damage", [flip_a_bit, zero_half_a_kilobyte])
def test_a_damaged_store_gives_no_wrong_value(
    redis_url: str, cluster: str, tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    frames = {name: LARGE.with_columns(n=pl.lit(name)) for name in NAMES}
    store(redis_url, cluster, tmp_path).write(frames)
    changed = damage_files(tmp_path, damage, 150)
    assert len(changed) > 20
    opened = store(redis_url, cluster, tmp_path)
    assert all(opened.read(name).equals(frame) for name, frame in frames.items())
    assert {Path(place).stem.replace("_", "/") for place in opened.damage()} == changed
    assert opened.damage() == {} and opened.all_exist(NAMES)
    assert all(store(redis_url, cluster, tmp_path).check(name) for name in NAMES)


def test_damage_without_a_copy_is_an_error_and_recovery_finds_what_is_lost(
    redis_url: str, cluster: str, tmp_path: Path
) -> None:
    frames = {name: LARGE.with_columns(n=pl.lit(name)) for name in NAMES}
    store(redis_url, cluster, tmp_path, 0).write(frames)
    changed = damage_files(tmp_path, flip_a_bit, 10)
    opened = store(redis_url, cluster, tmp_path, 0)
    for name, frame in frames.items():
        if name in changed:
            with pytest.raises(ExternalError, match="neither in redis nor on this host"):
                opened.read(name)
        else:
            assert opened.read(name).equals(frame)
    assert opened.missing(NAMES) == changed


@pytest.mark.parametrize(("limit", "lost"), [(None, False), (0, True)])
def test_scrubbing_replaces_a_damaged_file_or_reports_that_state_is_lost(
    redis_url: str, cluster: str, tmp_path: Path, limit: int | None, lost: bool
) -> None:
    runs, alarms = store(redis_url, cluster, tmp_path, limit), Alarms()
    runs.write({"1/a": LARGE, "1/b": FRAME})
    file = tmp_path / "1_a.arrow"
    before, content = file.stat(), bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # a disk error does not change the times
    scrubbing = Scrubbing("0", runs, alarms, lambda: {"1/a", "1/b"})
    scrubbing.start()
    try:
        assert wait_until(lambda: bool(alarms.all()), 120)
        (alarm,) = alarms.all()
        assert (alarm.place, "checksum differs" in alarm.reason) == (str(file), True)
        if lost:
            with pytest.raises(ExternalError, match='"1/a" is neither in redis nor on this host'):
                scrubbing.check()
        else:
            scrubbing.check()
            assert RunCache(tmp_path).check("1/a") and runs.read("1/a").equals(LARGE)
    finally:
        scrubbing.close()
