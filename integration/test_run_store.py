"""Runs that are restored from the copies of a checkpoint, with the real Redis."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import redis

from connectors.redis.run_cache import RunCache
from connectors.redis.run_store import RunStore
from operators.core.errors import ExternalError

pytestmark = pytest.mark.services
FRAME = pl.DataFrame({"k": ["a", None], "n": [1, 2]})


@pytest.fixture
def cluster() -> str:
    return uuid.uuid4().hex


def store(redis_url: str, cluster: str, cache: Path, limit: int | None = None) -> RunStore:
    return RunStore(redis.Redis.from_url(redis_url), cluster, "0", cache, limit)


@pytest.fixture
def pieces(redis_url: str, cluster: str, tmp_path: Path) -> list[bytes]:
    """The blob of a run that is nowhere any more."""
    runs = store(redis_url, cluster, tmp_path / "first")
    runs.write({"1/a": FRAME})
    blob = list(runs.pieces("1/a"))
    runs.delete(["1/a"])
    assert runs.missing(["1/a"]) == {"1/a"}
    return [blob[0][:50], blob[0][50:], *blob[1:]]


@pytest.mark.parametrize(("limit", "resident"), [(None, True), (10, False)])
def test_a_restored_run_is_on_this_host_and_in_redis_if_it_may_be(
    redis_url: str, cluster: str, tmp_path: Path, pieces: list[bytes], limit: int | None, resident: bool
) -> None:
    store(redis_url, cluster, tmp_path / "here", limit).restore("1/a", sum(map(len, pieces)), pieces)
    here, elsewhere = RunCache(tmp_path / "here"), store(redis_url, cluster, tmp_path / "elsewhere")
    found = here.read("1/a")
    assert found is not None and found.equals(FRAME)
    assert elsewhere.present(["1/a"]) == resident
    if resident:
        assert elsewhere.read("1/a").equals(FRAME)


def test_nothing_is_there_of_a_run_whose_pieces_end_with_an_error(
    redis_url: str, cluster: str, tmp_path: Path, pieces: list[bytes]
) -> None:
    def damaged() -> Iterator[bytes]:
        yield from pieces
        raise ExternalError("the checksum differs", retryable=False)

    runs = store(redis_url, cluster, tmp_path / "here")
    with pytest.raises(ExternalError, match="the checksum differs"):
        runs.restore("1/a", sum(map(len, pieces)), damaged())
    assert runs.missing(["1/a"]) == {"1/a"}
    assert list((tmp_path / "here").iterdir()) == []
