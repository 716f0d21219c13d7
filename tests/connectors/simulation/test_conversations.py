"""Simulated brokers answer like real ones: requests and clients get the answers that a real cluster has given."""

from __future__ import annotations

import pytest

from connectors.simulation.scheduler import EPOCH_S
from tests.support.kafka_conversations import CASES, Protocol, Talk, answers, case_name, golden_answers
from tests.support.simulated_kafka import simulation


@pytest.mark.parametrize(("talk", "protocol"), CASES, ids=[case_name(*case) for case in CASES])
@pytest.mark.parametrize("seed", range(2))
def test_the_answers_are_those_of_a_real_cluster(talk: Talk, protocol: Protocol, seed: int) -> None:
    given = {"transaction_version": protocol.transaction_version, "verification": protocol.verification}
    with simulation(seed, **given) as simulated:
        scheduler = simulated.scheduler
        kafka = simulated.kafka()
        text = simulated.run(lambda: answers(talk, kafka, scheduler.sleep, lambda: EPOCH_S + scheduler.now))
    assert text == golden_answers(talk, protocol)
