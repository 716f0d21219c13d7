"""Redis as the store of state that the laws of `tests/support/state_laws.py` test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors.redis.answers import RedisAnswers
from connectors.redis.client import connect, key
from dsms.state.stores import StateAddress
from tests.support.state_laws import StateUnderTest


def redis_under_test(url: str, cluster: str, directory: Path) -> StateUnderTest:
    """The store of a cluster that has no keys yet."""
    client: Any = connect(url)

    def pass_time(seconds: float) -> None:
        """Shortens the lives of all keys of the cluster."""
        for name in client.scan_iter("dsms:{" + cluster + "*"):
            if (life_ms := client.pttl(name)) > 0:
                client.pexpire(name, life_ms - round(seconds * 1000))  # deletes the key if that is negative

    def damage_run(fragment: str, run: str) -> None:
        """Flips a bit in the first piece of a run."""
        place = key(cluster, fragment, "run", run)
        blob = bytearray(client.hget(place, "0"))
        blob[len(blob) // 2] ^= 1
        client.hset(place, "0", bytes(blob))

    return StateUnderTest(
        StateAddress(url, cluster).open,
        pass_time,
        damage_run,
        lambda most: RedisAnswers(client, cluster, most),
        directory,
    )
