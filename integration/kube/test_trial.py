"""The chart with a Kafka and a Redis of its own and its first statements: nothing else is needed for a trial."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dsms.local.waiting import wait_until
from integration.kube.api import Api
from integration.kube.conftest import QUICK_START
from integration.kube.kubelet import Kubelet
from integration.kube.release import Release
from integration.kube.service_proxy import ServiceProxy
from integration.kube.test_release import DEADLINE_S, kill_9

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]
STATEMENTS = """
REGISTER SOURCE IF NOT EXISTS orders (customer VARCHAR, amount INT) FROM orders PARTITIONS 2
    TAGGED NONE IDLE AFTER 1 SECOND;
CREATE STREAM IF NOT EXISTS o OVER orders KEY NULL;
CREATE MATERIALIZED VIEW IF NOT EXISTS takings AS SELECT customer, SUM(amount) AS total FROM o GROUP BY customer
"""
VALUES = {
    "kafka": {"single": {"enabled": True, "heap": "512m", "persistent": False}},
    "redis": {"single": {"enabled": True, "persistent": False}},
    "bootstrap": {"sql": STATEMENTS},
    "listenAddress": "$(POD_IP)",
    "coordinator": {"replicas": 1},
    "executor": {"replicas": 1, "cores": 2, "partitions": 2, "javaOptions": QUICK_START},
}


@pytest.fixture(scope="module")
def trial(api: Api, kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    release = Release(api, kubelet, tmp_path_factory.mktemp("trial"), token="", namespace="trial")
    release.prepare({})
    proxy = ServiceProxy(api, release.namespace)
    try:
        release.helm("install", VALUES)
        yield release
    finally:
        proxy.stop()


def publish(release: Release, orders: list[tuple[str, int]]) -> None:
    body = "\n".join(json.dumps({"customer": customer, "amount": amount}) for customer, amount in orders)
    answer = release.ask("POST", "/v1/sources/orders/records", content=body)
    assert answer.is_success, answer.text


def totals(release: Release) -> dict[str, int]:
    return dict(release.document("/v1/queries/takings/relation")["rows"])


def await_totals(release: Release, expected: dict[str, int]) -> None:
    done = wait_until(lambda: totals(release) == expected, DEADLINE_S, pause_s=0.5)
    assert done, f"{totals(release)}\n{release.kubelet.logs()}"


def test_the_first_statements_were_run_and_have_results(trial: Release):
    publish(trial, [("ann", 5), ("bob", 7), ("ann", 2)])
    await_totals(trial, {"ann": 7, "bob": 7})


def test_an_upgrade_runs_them_again_and_changes_nothing(trial: Release):
    trial.helm("upgrade", VALUES | {"executor": {**VALUES["executor"], "batchSeconds": 2}})
    publish(trial, [("ann", 1)])
    await_totals(trial, {"ann": 8, "bob": 7})


def test_killed_nodes_come_back_with_what_they_held(trial: Release):
    for name in ("dsms-kafka-0", "dsms-redis-0"):
        pod = trial.kubelet.pod(name)
        kill_9(pod.pid)
        assert wait_until(lambda: pod.restarts == 1, 30)  # noqa: B023
    assert wait_until(lambda: trial.ask("GET", "/readyz").is_success, DEADLINE_S, pause_s=0.5), trial.kubelet.logs()
    publish(trial, [("eve", 3)])
    await_totals(trial, {"ann": 8, "bob": 7, "eve": 3})


def test_uninstalling_leaves_no_pod(trial: Release, api: Api):
    trial.helm("uninstall")
    assert wait_until(lambda: not api.items(trial.path("pods")), 60)
