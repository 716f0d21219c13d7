"""The chart's values: all are listed, explained and checked, and unknown ones are refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "helm" / "dsms"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
#: Values that are maps with keys of the user's choice.
MAPS = {"annotations", "podAnnotations", "podLabels", "nodeSelector", "labels", "commonLabels", "commonAnnotations"}
#: Definitions of objects of Kubernetes, whose keys its API server checks.
OF_KUBERNETES = {"kubernetesObject", "named"}
Attempt = Callable[..., subprocess.CompletedProcess[str]]
#: Wrong values by name, each with the text that the refusal must contain.
WRONG: dict[str, tuple[Any, str]] = {
    "kafka.bootstrap": (None, "kafka.bootstrap is needed"),
    "kafka.boostrap": ("x", "'boostrap' not allowed"),
    "redis.password": ("secret", "'password' not allowed"),
    "redis.url": ("redis://:secret@r:6379/0", "at '/redis/url'"),
    "redis.urlSecret.name": ("both", "redis.url and redis.urlSecret are both set"),
    "image.pullPolicy": ("Sometimes", "at '/image/pullPolicy'"),
    "api.port": (0, "at '/api/port'"),
    "api.tokensSecret.name": ("alone", "api.executorTokenSecret is needed"),
    "api.oidcSecret.name": ("alone", "api.tokensSecret is needed"),
    "api.executorTlsSecret": ("alone", "needs api.tlsSecret"),
    "telemetry.otlpEndpoint": ("collector:4318", "at '/telemetry/otlpEndpoint'"),
    "telemetry.serviceMonitor.interval": ("often", "at '/telemetry/serviceMonitor/interval'"),
    "telemetry.alerts.behindRecords": (0, "at '/telemetry/alerts/behindRecords'"),
    "networkPolicy.clients": ([{"pods": {}}], "'pods' not allowed"),
    "executor.replicas": (0, "at '/executor/replicas'"),
    "executor.autoscaling.maxReplicas": (0, "at '/executor/autoscaling/maxReplicas'"),
    "executor.autoscaling": ({"enabled": True, "minReplicas": 9}, "minReplicas must be at most maxReplicas"),
    "executor.resources.limits.gpu": ("1", "'gpu' not allowed"),
    "executor.cache.size": ("much", "at '/executor/cache/size'"),
    "executor.tolerations": ([{"keys": "a"}], "'keys' not allowed"),
    "executor.podDisruptionBudget.maxUnavailable": ("half", "at '/executor/podDisruptionBudget/maxUnavailable'"),
    "coordinator.election.leaseSeconds": (3, "renewSeconds must be shorter"),
    "coordinator.election.retrySeconds": (3, "retrySeconds must be shorter"),
    "coordinator.podLabels": ({"a": 1}, "at '/coordinator/podLabels/a'"),
    "cluster": ("A_b", "at '/cluster'"),
    "nameOverride": ("A_b", "at '/nameOverride'"),
    "fullnameOverride": ("a" * 51, "at '/fullnameOverride'"),
    "commonLabels": ({"a": 1}, "at '/commonLabels/a'"),
    "commonAnnotations": (["a"], "at '/commonAnnotations'"),
    "image.digest": ("sha256:1", "at '/image/digest'"),
    "kafka.single.annotations": ("a", "at '/kafka/single/annotations'"),
    "api.service.loadBalancerSourceRanges": (["10.0.0.1"], "at '/api/service/loadBalancerSourceRanges/0'"),
    "api.ingress.enabled": (True, "api.ingress.hosts is needed"),
    "api.ingress.hosts": (["http://a"], "at '/api/ingress/hosts/0'"),
    "api.ingress.class": ("nginx", "'class' not allowed"),
    "api.route.enabled": (True, "api.route needs hosts"),
    "api.route.parentRefs": ([{"gateway": "a", "name": "a"}], "'gateway' not allowed"),
    "coordinator.affinity": ([], "at '/coordinator/affinity'"),
    "executor.topologySpreadConstraints": (
        [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "at '/executor/topologySpreadConstraints/0/maxSkew'",
    ),
    "executor.podSecurityContext": ("root", "at '/executor/podSecurityContext'"),
    "coordinator.containerSecurityContext": (1, "at '/coordinator/containerSecurityContext'"),
    "coordinator.probes.readiness.failureThreshold": (0, "at '/coordinator/probes/readiness/failureThreshold'"),
    "executor.probes.liveness.path": ("/", "'path' not allowed"),
    "executor.extraEnv": ([{"name": "A", "value": 1}], "at '/executor/extraEnv/0/value'"),
    "coordinator.extraEnvFrom": (["name"], "at '/coordinator/extraEnvFrom/0'"),
    "executor.extraVolumes": ([{"name": "Up"}], "at '/executor/extraVolumes/0/name'"),
    "coordinator.extraVolumeMounts": (
        [{"name": "a", "mountPath": "tmp"}],
        "at '/coordinator/extraVolumeMounts/0/mountPath'",
    ),
    "executor.initContainers": ({"name": "a"}, "at '/executor/initContainers'"),
    "coordinator.sidecars": ([1], "at '/coordinator/sidecars/0'"),
    "executor.cache.annotations": ({"a": 1}, "at '/executor/cache/annotations/a'"),
    "extra": (1, "'extra' not allowed"),
}


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for name, part in schema.items():
            yield from objects(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part, path)


def keys(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(values, dict):
        for name, part in values.items():
            yield (*path, name)
            yield from keys(part, (*path, name))


@pytest.mark.parametrize("url", ["redis://r:6379/0", "rediss+sentinel://a:1\\,b:2/main/0", "redis+cluster://a:1"])
def test_the_chart_passes_the_strict_linter(helm: Callable[..., subprocess.CompletedProcess[str]], url: str):
    options = ("--set", f"kafka.bootstrap=k:9092,redis.url={url}")
    done = helm("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr


def test_every_object_of_the_schema_is_closed():
    schemas = dict(objects(SCHEMA))
    assert len(schemas) > 20
    open_ones = [path for path, schema in schemas.items() if schema.get("additionalProperties") is not False]
    assert {path.rsplit("/", 1)[-1] for path in open_ones} == MAPS | OF_KUBERNETES | {"global"}
    for path in open_ones:
        if path.rsplit("/", 1)[-1] in MAPS:
            assert schemas[path]["additionalProperties"] == {"type": "string"}


def test_schema_and_values_name_the_same_keys():
    """Resources are the only value whose default leaves out keys."""

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        return SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema

    def named(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for name, part in resolved(schema).get("properties", {}).items():
            yield (*path, name)
            if name != "resources":
                yield from named(part, (*path, name))

    in_values = {path for path in keys(VALUES) if "resources" not in path[:-1]}
    assert set(named(SCHEMA)) - {("global",)} == in_values


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(attempt: Attempt, name: str):
    value, said = WRONG[name]
    done = attempt({name: value})
    assert done.returncode != 0, done.stdout
    assert said in done.stderr or _of_older_helm(said) in done.stderr


def _of_older_helm(said: str) -> str:
    """The message of helm before 3.18 for the same violation of the schema."""
    if said.startswith("at '/"):
        return said.removeprefix("at '/").removesuffix("'").replace("/", ".") + ": "
    return f"property {said.split(chr(39))[1]} is not allowed" if said.endswith("not allowed") else said


def test_minimal_values_are_accepted(attempt: Attempt):
    assert attempt().returncode == 0
