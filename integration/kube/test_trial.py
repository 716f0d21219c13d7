"""The chart with a Kafka and a Redis of its own and its first statements: nothing else is needed for a trial."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dsms.local.waiting import wait_until
from integration.kube.api import Api
from integration.kube.conftest import QUICK_START
from integration.kube.kubelet import Kubelet
from integration.kube.pod_runner import PodRunner
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


def asked(release: Release, method: str, path: str, **options: Any) -> httpx.Response | None:
    """The answer; None if the Service has no ready pod at the moment."""
    try:
        return release.ask(method, path, **options)
    except httpx.TransportError:
        return None


def publish(release: Release, orders: list[tuple[str, int]]) -> None:
    body = "\n".join(json.dumps({"customer": customer, "amount": amount}) for customer, amount in orders)
    once = {"Idempotency-Key": secrets.token_hex(8), "Content-Type": "application/x-ndjson"}

    def sent() -> bool:
        """A coordinator that cannot publish answers 503."""
        answer = asked(release, "POST", "/v1/sources/orders/records", content=body, extra=once)
        assert answer is None or answer.is_success or answer.status_code == 503, answer.text
        return answer is not None and answer.is_success

    assert wait_until(sent, DEADLINE_S, pause_s=0.5), release.kubelet.logs()


def totals(release: Release) -> dict[str, int] | None:
    """None while there are no results."""
    answer = asked(release, "GET", "/v1/queries/takings/relation")
    return dict(answer.json()["rows"]) if answer is not None and answer.is_success else None


def await_totals(release: Release, expected: dict[str, int]) -> None:
    done = wait_until(lambda: totals(release) == expected, DEADLINE_S, pause_s=0.5)
    assert done, f"{totals(release)}\n{release.kubelet.logs()}"


def test_the_first_statements_were_run_and_have_results(trial: Release):
    publish(trial, [("ann", 5), ("bob", 7), ("ann", 2)])
    await_totals(trial, {"ann": 7, "bob": 7})


def test_upgrade_runs_the_first_statements_again_without_effect(trial: Release):
    trial.helm("upgrade", VALUES | {"executor": {**VALUES["executor"], "batchSeconds": 2}})
    publish(trial, [("ann", 1)])
    await_totals(trial, {"ann": 8, "bob": 7})


def test_spark_executors_are_pods_of_their_own(trial: Release, api: Api):
    """They do the work of the executor, one that is killed is replaced, and they end with it."""
    few = {"enabled": True, "instances": 1, "cores": 2, "memory": "512m", "memoryOverhead": "512m"}
    trial.helm("upgrade", {**VALUES, "executor": {**VALUES["executor"], "sparkPods": few}})
    assert wait_until(lambda: len(spark_pods(trial)) == 1, DEADLINE_S), trial.kubelet.logs()
    publish(trial, [("bob", 1)])
    await_totals(trial, {"ann": 8, "bob": 8})
    (pod,) = spark_pods(trial)
    assert "Error" not in pod.log(), pod.log()
    kill_9(pod.pid)
    publish(trial, [("bob", 2)])
    await_totals(trial, {"ann": 8, "bob": 10})
    assert pod not in spark_pods(trial)
    trial.helm("upgrade", VALUES)
    assert wait_until(lambda: not spark_pods(trial), 120), trial.kubelet.logs()
    publish(trial, [("bob", 3)])
    await_totals(trial, {"ann": 8, "bob": 13})


def spark_pods(release: Release) -> list[PodRunner]:
    """The pods that Spark made and that run."""
    pods = list(release.kubelet.pods.values())
    named = [pod for pod in pods if pod.pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "dsms-spark"]
    return [pod for pod in named if not pod.outcome]


def test_killed_kafka_and_redis_restart_with_their_data(trial: Release):
    for name in ("dsms-kafka-0", "dsms-redis-0"):
        pod = trial.kubelet.pod(name)
        kill_9(pod.pid)
        assert wait_until(lambda: pod.restarts == 1, 120)  # noqa: B023
    publish(trial, [("eve", 3)])
    await_totals(trial, {"ann": 8, "bob": 13, "eve": 3})


def test_uninstalling_leaves_no_pod(trial: Release, api: Api):
    trial.helm("uninstall")
    assert wait_until(lambda: not api.items(trial.path("pods")), 120)
