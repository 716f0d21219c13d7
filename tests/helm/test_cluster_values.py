"""Values that clusters of organisations need: where each of them is in the rendered chart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.helm.conftest import CHART, LEAST

Document = dict[str, Any]
Render = Callable[..., dict[tuple[str, str], Document]]
WORKLOADS = {"coordinator": ("Deployment", "rel-dsms-coordinator"), "executor": ("StatefulSet", "rel-dsms-executor")}
#: Values with which the chart has all of its objects.
ALL = {
    "kafka.bootstrap": None,
    "redis.url": None,
    "kafka.single.enabled": True,
    "redis.single.enabled": True,
    "bootstrap.sql": "SHOW TABLES",
    "networkPolicy.enabled": True,
    "executor.sparkPods.enabled": True,
    "telemetry.serviceMonitor.enabled": True,
    "telemetry.alerts.enabled": True,
    "telemetry.dashboard.enabled": True,
    "api.ingress.enabled": True,
    "api.ingress.hosts": ["dsms.example.org"],
    "api.route.enabled": True,
    "api.route.hosts": ["dsms.example.org"],
    "api.route.parentRefs": [{"name": "outside", "namespace": "gateways"}],
}
DIGEST = "sha256:" + "0123456789abcdef" * 4
each_component = pytest.mark.parametrize("component", WORKLOADS)


def pod(documents: dict[tuple[str, str], Document], component: str) -> Document:
    return documents[WORKLOADS[component]]["spec"]["template"]["spec"]


def template(documents: dict[tuple[str, str], Document], component: str) -> Document:
    return documents[WORKLOADS[component]]["spec"]["template"]["metadata"]


def images(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from ([part["image"]] if isinstance(part.get("image"), str) else [])
        for inner in part.values():
            yield from images(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from images(inner)


def test_labels_and_annotations_are_on_every_object_and_pod(render: Render) -> None:
    common = {"commonLabels": {"team": "data"}, "commonAnnotations": {"owner": "me"}}
    documents = render(ALL | common | {"api.service.annotations": {"own": "1"}})
    assert len(documents) > 20
    for document in documents.values():
        assert document["metadata"]["labels"]["team"] == "data", document["metadata"]
        assert document["metadata"]["annotations"]["owner"] == "me", document["metadata"]
    for component in WORKLOADS:
        assert template(documents, component)["labels"]["team"] == "data"
        assert template(documents, component)["annotations"]["owner"] == "me"
        assert "team" not in documents[WORKLOADS[component]]["spec"]["selector"]["matchLabels"]
    assert documents["Service", "rel-dsms-coordinator"]["metadata"]["annotations"] == {"own": "1", "owner": "me"}
    assert (
        documents["Job", "rel-dsms-bootstrap"]["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    )


def test_common_labels_do_not_replace_those_that_select_pods(render: Render) -> None:
    documents = render({"commonLabels": {"app.kubernetes.io/name": "x", "app.kubernetes.io/component": "y"}})
    labels = template(documents, "executor")["labels"]
    assert (labels["app.kubernetes.io/name"], labels["app.kubernetes.io/component"]) == ("dsms", "executor")


@pytest.mark.parametrize(
    ("values", "name", "application"),
    [
        ({"nameOverride": "streams"}, "rel-streams", "streams"),
        ({"nameOverride": "rel"}, "rel", "rel"),
        ({"fullnameOverride": "orders"}, "orders", "dsms"),
    ],
)
def test_names_can_be_chosen(render: Render, values: dict[str, str], name: str, application: str) -> None:
    documents = render(values)
    assert {own for _, own in documents} >= {f"{name}-coordinator", f"{name}-executor"}
    assert all(own.startswith(name) for _, own in documents)
    service = documents["Service", f"{name}-coordinator"]["spec"]["selector"]
    labels = documents["Deployment", f"{name}-coordinator"]["spec"]["template"]["metadata"]["labels"]
    assert service.items() <= labels.items()
    assert labels["app.kubernetes.io/name"] == application
    (coordinator,) = documents["Deployment", f"{name}-coordinator"]["spec"]["template"]["spec"]["containers"]
    hosts = next(variable["value"] for variable in coordinator["env"] if variable["name"] == "DSMS_HOSTS")
    assert f"{name}-coordinator.streams.svc" in hosts


def test_an_image_is_named_by_its_digest_everywhere(render: Render) -> None:
    documents = render(ALL | {"image.repository": "registry/dsms", "image.digest": DIGEST})
    used = {image for document in documents.values() for image in images(document) if "dsms" in image}
    assert used == {f"registry/dsms@{DIGEST}"}
    spark = documents["ConfigMap", "rel-dsms-spark"]["data"]["spark-defaults.conf"]
    assert f"spark.kubernetes.container.image registry/dsms@{DIGEST}\n" in spark


@each_component
def test_affinity_replaces_the_default(render: Render, component: str) -> None:
    assert "podAntiAffinity" in pod(render({}), component)["affinity"]
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    assert pod(render({f"{component}.affinity": wanted}), component)["affinity"] == wanted


@each_component
def test_constraints_spread_the_pods_of_their_component(render: Render, component: str) -> None:
    plain = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = {**plain, "labelSelector": {"matchLabels": {"a": "b"}}}
    documents = render({f"{component}.topologySpreadConstraints": [plain, own]})
    first, second = pod(documents, component)["topologySpreadConstraints"]
    selected = first.pop("labelSelector")["matchLabels"]
    assert first == plain
    assert selected == documents[WORKLOADS[component]]["spec"]["selector"]["matchLabels"]
    assert second == own


@each_component
def test_security_contexts_are_merged_over_the_safe_defaults(render: Render, component: str) -> None:
    documents = render(
        {
            f"{component}.podSecurityContext": {"runAsUser": 20000, "fsGroup": None, "supplementalGroups": [7]},
            f"{component}.containerSecurityContext": {"readOnlyRootFilesystem": False, "capabilities": {"add": ["A"]}},
        }
    )
    context = pod(documents, component)["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"], context["supplementalGroups"]) == (20000, True, [7])
    assert "fsGroup" not in context
    container = pod(documents, component)["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"] is False
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"], "add": ["A"]}


@each_component
def test_numbers_of_probes_can_be_changed(render: Render, component: str) -> None:
    def probes(values: dict[str, Any]) -> dict[str, Any]:
        container = pod(render(values), component)["containers"][0]
        return {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}

    changed = probes(
        {f"{component}.probes.startup.failureThreshold": 300, f"{component}.probes.liveness.timeoutSeconds": 9}
    )
    expected = probes({})
    expected["startup"]["failureThreshold"] = 300
    expected["liveness"]["timeoutSeconds"] = 9
    assert changed == expected


@each_component
def test_variables_volumes_and_containers_can_be_added(render: Render, component: str) -> None:
    before = pod(render({}), component)
    added = {
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraEnvFrom": [{"secretRef": {"name": "more"}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/own", "readOnly": True}],
        "initContainers": [{"name": "wait", "image": "busybox", "command": ["true"]}],
        "sidecars": [{"name": "proxy", "image": "envoy"}],
    }
    after = pod(render({f"{component}.{name}": value for name, value in added.items()}), component)
    container, sidecar = after["containers"]
    assert container["env"] == [*before["containers"][0]["env"], *added["extraEnv"]]
    assert container["envFrom"] == added["extraEnvFrom"]
    assert container["volumeMounts"] == [*before["containers"][0]["volumeMounts"], *added["extraVolumeMounts"]]
    assert after["volumes"] == [*added["extraVolumes"], *before["volumes"]]
    assert after["initContainers"] == added["initContainers"]
    assert sidecar == added["sidecars"][0]
    assert container["name"] == component


def test_pods_of_spark_have_the_variables_and_volumes_of_executors(render: Render) -> None:
    documents = render(
        {
            "executor.sparkPods.enabled": True,
            "executor.extraEnv": [{"name": "HTTPS_PROXY", "value": "p"}],
            "executor.extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "executor.extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
            "executor.podSecurityContext": {"runAsUser": 20000},
        }
    )
    spark = documents["ConfigMap", "rel-dsms-spark"]["data"]["pod.yaml"]
    for text in ("name: HTTPS_PROXY", "mountPath: /ca", "configMap:", "runAsUser: 20000"):
        assert text in spark


def test_an_ingress_leads_to_the_coordinator_and_its_hosts_are_accepted(render: Render) -> None:
    documents = render(
        {
            "api.ingress.enabled": True,
            "api.ingress.className": "nginx",
            "api.ingress.hosts": ["dsms.example.org"],
            "api.ingress.tlsSecret": "outside-tls",
            "api.ingress.annotations": {"a": "b"},
        }
    )
    ingress = documents["Ingress", "rel-dsms-coordinator"]
    assert ingress["metadata"]["annotations"] == {"a": "b"}
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == [{"secretName": "outside-tls", "hosts": ["dsms.example.org"]}]
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert rule["host"] == "dsms.example.org"
    assert path["backend"]["service"] == {"name": "rel-dsms-coordinator", "port": {"name": "http"}}
    assert "dsms.example.org" in hosts(documents)
    assert "example" not in hosts(render({}))


def test_a_route_leads_from_a_gateway_to_the_coordinator(render: Render) -> None:
    documents = render(
        {
            "api.route.enabled": True,
            "api.route.hosts": ["dsms.example.org"],
            "api.route.parentRefs": [{"name": "outside", "sectionName": "https"}],
        }
    )
    spec = documents["HTTPRoute", "rel-dsms-coordinator"]["spec"]
    assert spec["parentRefs"] == [{"name": "outside", "sectionName": "https"}]
    assert spec["hostnames"] == ["dsms.example.org"]
    assert spec["rules"] == [{"backendRefs": [{"name": "rel-dsms-coordinator", "port": 8080}]}]
    assert "dsms.example.org" in hosts(documents)


def hosts(documents: dict[tuple[str, str], Document]) -> str:
    variables = pod(documents, "coordinator")["containers"][0]["env"]
    return next(variable["value"] for variable in variables if variable["name"] == "DSMS_HOSTS")


def test_a_load_balancer_is_of_a_class_and_limits_its_clients(render: Render) -> None:
    assert "loadBalancerSourceRanges" not in render({})["Service", "rel-dsms-coordinator"]["spec"]
    spec = render(
        {
            "api.service.type": "LoadBalancer",
            "api.service.loadBalancerSourceRanges": ["10.0.0.0/8", "fd00::/8"],
            "api.service.loadBalancerClass": "internal",
        }
    )["Service", "rel-dsms-coordinator"]["spec"]
    assert spec["loadBalancerSourceRanges"] == ["10.0.0.0/8", "fd00::/8"]
    assert spec["loadBalancerClass"] == "internal"


def test_volume_claims_have_annotations(render: Render) -> None:
    kept = render({"executor.cache.persistent": True, "executor.cache.annotations": {"backup": "no"}})
    (claim,) = kept[WORKLOADS["executor"]]["spec"]["volumeClaimTemplates"]
    assert claim["metadata"] == {"name": "data", "annotations": {"backup": "no"}}
    documents = render(ALL | {"kafka.single.annotations": {"a": "k"}, "redis.single.annotations": {"a": "r"}})
    for name in ("kafka", "redis"):
        (claim,) = documents["StatefulSet", f"rel-dsms-{name}"]["spec"]["volumeClaimTemplates"]
        assert claim["metadata"]["annotations"] == {"a": name[0]}


def test_jobs_run_on_nodes_of_the_coordinator(render: Render) -> None:
    documents = render(ALL | {"coordinator.nodeSelector": {"disk": "fast"}, "coordinator.tolerations": [{"key": "a"}]})
    job = documents["Job", "rel-dsms-bootstrap"]["spec"]["template"]["spec"]
    test = documents["Pod", "rel-dsms-test"]["spec"]
    for spec in (job, test):
        assert (spec["nodeSelector"], spec["tolerations"]) == ({"disk": "fast"}, [{"key": "a"}])


def test_values_of_an_older_chart_are_enough(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """`helm upgrade --reuse-values` from a chart without these values gives the objects of their defaults."""
    of_pods = """affinity topologySpreadConstraints podSecurityContext containerSecurityContext probes extraEnv
        extraEnvFrom extraVolumes extraVolumeMounts initContainers sidecars"""
    others = """api.ingress api.route commonLabels commonAnnotations nameOverride fullnameOverride image.digest
        executor.cache.annotations api.service.loadBalancerSourceRanges api.service.loadBalancerClass"""
    absent = [f"{component}.{name}" for component in WORKLOADS for name in of_pods.split()] + others.split()
    least = ("template", "rel", str(CHART), "--set", ",".join(f"{name}={value}" for name, value in LEAST.items()))
    older = helm(*least, "--set", ",".join(f"{name}=null" for name in absent))
    assert older.returncode == 0, older.stderr
    assert list(yaml.safe_load_all(older.stdout)) == list(yaml.safe_load_all(helm(*least).stdout))
