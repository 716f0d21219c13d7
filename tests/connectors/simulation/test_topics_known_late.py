"""A topic can be used as soon as it has been created, although brokers learn of it one after the other."""

from __future__ import annotations

import pytest

from connectors.kafka.client.topic_settings import wrong_settings
from connectors.kafka.client.topics import admit_large_records, ensure_topic, id_of_existing
from tests.support.simulated_kafka import simulation


@pytest.mark.parametrize("seed", range(12))
def test_settings_of_a_topic_that_only_some_brokers_know(seed: int) -> None:
    with simulation(seed, brokers=3) as simulated:

        def create_and_change() -> None:
            admin = simulated.kafka().admin()
            ensure_topic(admin, "t", 1)
            admit_large_records(admin, "t")

        simulated.run_all([create_and_change, create_and_change])
        simulated.sleep(10.0)
        wanted = {"max.message.bytes": "20000000"}
        assert simulated.run(lambda: wrong_settings(simulated.kafka().admin(), "t", wanted)) == {}


@pytest.mark.parametrize("seed", range(12))
def test_the_id_of_a_topic_that_only_some_brokers_know(seed: int) -> None:
    """Without its id, a query would publish into a topic that was deleted and created again."""
    with simulation(seed, brokers=3) as simulated:
        found: list[str | None] = []

        def create_and_ask() -> None:
            admin = simulated.kafka().admin()
            ensure_topic(admin, "t", 1)
            found.append(id_of_existing(admin, "t"))

        simulated.run_all([create_and_ask, create_and_ask])
        simulated.sleep(10.0)
        known = simulated.run(lambda: id_of_existing(simulated.kafka().admin(), "t"))
        assert known is not None and found == [known, known]
