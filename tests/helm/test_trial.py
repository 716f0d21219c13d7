"""The trial of the chart: it brings one Kafka, one Redis, and the first statements."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from yaml import safe_load

from tests.helm.test_chart import COORDINATOR, EXECUTOR, Render, env

Attempt = Callable[..., subprocess.CompletedProcess[str]]
SINGLE = {"kafka.bootstrap": None, "redis.url": None, "kafka.single.enabled": True, "redis.single.enabled": True}


def test_a_trial_brings_its_own_kafka_and_redis(render: Render):
    documents = render(SINGLE | {"networkPolicy.enabled": True})
    for workload in (COORDINATOR, EXECUTOR):
        found = env(documents, workload)
        assert (found["DSMS_KAFKA"], found["DSMS_REDIS"]) == ("rel-dsms-kafka:9092", "redis://rel-dsms-redis:6379/0")
    for name in ("kafka", "redis"):
        service, node = documents["Service", f"rel-dsms-{name}"], documents["StatefulSet", f"rel-dsms-{name}"]
        pod = node["spec"]["template"]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        (container,), (port,) = pod["spec"]["containers"], service["spec"]["ports"]
        assert [(known["name"], known["containerPort"]) for known in container["ports"]] == [(name, port["port"])]
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        (claim,) = node["spec"]["volumeClaimTemplates"]
        assert node["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {claim["metadata"]["name"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    properties = documents["ConfigMap", "rel-dsms-kafka"]["data"]["server.properties"]
    assert "advertised.listeners=CLIENT://rel-dsms-kafka.streams.svc:9092\n" in properties
    allowed = [rule["ports"] for rule in documents["NetworkPolicy", "rel-dsms"]["spec"]["ingress"]]
    assert {"kafka", "redis"} <= {port["port"] for ports in allowed for port in ports}


@pytest.mark.parametrize("taken", [{"kafka.bootstrap": "kafka:9092"}, {"redis.url": "redis://redis:6379/0"}])
def test_bundled_services_exclude_external_ones(attempt: Attempt, taken: dict[str, Any]):
    done = attempt(SINGLE | taken)
    assert done.returncode != 0
    assert "both set: choose one" in done.stderr


def test_statements_are_run_after_installing(render: Render):
    assert not any(kind == "Job" for kind, _ in render())
    sql = (
        "REGISTER SOURCE IF NOT EXISTS s (a INT) FROM 's' PARTITIONS 3;\nCREATE STREAM IF NOT EXISTS t OVER s KEY NULL"
    )
    documents = render({"bootstrap.sql": sql, "api.tlsSecret": "tls", "api.executorTokenSecret.name": "token"})
    assert documents["ConfigMap", "rel-dsms-bootstrap"]["data"]["bootstrap.sql"].strip() == sql
    job = documents["Job", "rel-dsms-bootstrap"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["-f", "/config/bootstrap.sql"]
    names = {variable["name"] for variable in container["env"]}
    assert {"DSMS_COORDINATOR", "DSMS_TOKEN", "SSL_CERT_FILE"} <= names


SPARK = {"executor.sparkPods.enabled": True, "executor.sparkPods.instances": 3, "networkPolicy.enabled": True}


def test_spark_executors_are_pods_that_the_executor_may_make(render: Render):
    documents = render(SPARK | {"api.tlsSecret": "tls", "redis.caSecret.name": "ca"})
    executor = documents[EXECUTOR]["spec"]["template"]["spec"]
    found = env(documents, EXECUTOR)
    assert found["DSMS_MASTER"] == "k8s://https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
    assert found["DSMS_DRIVER_HOST"] == "$(POD_IP)"
    assert executor["automountServiceAccountToken"] is True
    role = documents["Role", executor["serviceAccountName"]]
    assert [(rule["apiGroups"], rule["resources"]) for rule in role["rules"]] == [([""], ["pods"])]
    settings = documents["ConfigMap", "rel-dsms-spark"]["data"]
    conf = dict(line.split(" ", 1) for line in settings["spark-defaults.conf"].splitlines())
    ports = {port["name"]: str(port["containerPort"]) for port in executor["containers"][0]["ports"]}
    assert (conf["spark.driver.port"], conf["spark.driver.blockManager.port"]) == (ports["driver"], ports["blocks"])
    assert (conf["spark.executor.instances"], conf["spark.kubernetes.namespace"]) == ("3", "streams")
    pod = safe_load(settings["pod.yaml"])
    (container,) = pod["spec"]["containers"]
    assert container["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert (pod["spec"]["securityContext"], container["securityContext"]) == (
        executor["securityContext"], executor["containers"][0]["securityContext"],
    )  # fmt: skip
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    own = {mount["name"]: mount["mountPath"] for mount in executor["containers"][0]["volumeMounts"]}
    assert mounted == {name: path for name, path in own.items() if name != "spark"}
    assert mounted.keys() == {volume["name"] for volume in pod["spec"]["volumes"]}
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert given.items() <= {name: value for name, value in found.items() if isinstance(value, str)}.items() | {
        (name, None) for name in given
    }
    for workload in (COORDINATOR, EXECUTOR):
        selector = documents[workload]["spec"]["selector"]["matchLabels"]
        assert not selector.items() <= pod["metadata"]["labels"].items()
    rules = documents["NetworkPolicy", "rel-dsms"]["spec"]["ingress"]
    (rule,) = [
        rule for rule in rules if {"podSelector": {"matchLabels": pod["metadata"]["labels"]}} in rule.get("from", [])
    ]
    assert {port["port"] for port in rule["ports"]} == {"http", "driver", "blocks"}


def test_only_one_spark_master_can_be_set(attempt: Attempt):
    done = attempt(SPARK | {"executor.master": "spark://spark:7077"})
    assert done.returncode != 0
    assert "executor.master and executor.sparkPods.enabled are both set" in done.stderr
