"""The rendered chart: pods of the restricted profile, least privileges, no secret in a command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from yaml import safe_load

import dsms.coordinator.__main__ as coordinator
import dsms.executor.__main__ as executor
from connectors.credentials.client_tls import CERTIFICATE, KEY
from dsms.telemetry import instruments
from tests.helm.conftest import ROOT

Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]
COORDINATOR, EXECUTOR = ("Deployment", "rel-dsms-coordinator"), ("StatefulSet", "rel-dsms-executor")
#: All possible secrets, and a persistent cache for each executor.
EVERYTHING = {
    "cluster": "prod", "redis.url": None, "redis.urlSecret.name": "redis-secret", "redis.caSecret.name": "redis-ca",
    "kafka.propertiesSecret.name": "kafka-secret", "api.tokensSecret.name": "tokens-secret",
    "api.executorTokenSecret.name": "token-secret", "api.tlsSecret": "tls-secret", "executor.cache.persistent": True,
    "coordinator.loadDatabases": True, "executor.cores": 8, "executor.javaOptions": "-Xss2m",
    "coordinator.tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "executor.nodeSelector": {"disk": "fast"}, "image.pullSecrets": ["pull"], "executor.podAnnotations": {"a": "b"},
    "executor.priorityClassName": "high", "registryUrl": "https://registry:8081",
    "executor.checkpoints.url": "s3://state/dsms", "executor.checkpoints.secret.name": "bucket-secret",
    "executor.checkpoints.endpoint": "https://minio:9000", "executor.checkpoints.region": "eu-1",
    "api.executorTlsSecret": "client-secret", "api.oidcSecret.name": "oidc-secret", "secretsSecret": "named-secrets",
    "executor.autoscaling.enabled": True,
}  # fmt: skip


def pods(documents: dict[tuple[str, str], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (
        document["spec"]["template"]["spec"]
        for document in documents.values()
        if "template" in document.get("spec", {})
    )


def env(documents: dict[tuple[str, str], dict[str, Any]], workload: tuple[str, str]) -> dict[str, Any]:
    (container,) = documents[workload]["spec"]["template"]["spec"]["containers"]
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names)), names
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_every_pod_is_of_the_restricted_profile(render: Render, values: dict[str, Any]):
    both = list(pods(render(values)))
    assert len(both) == 2
    for pod in both:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
        assert all(volume.keys() <= {"name", "emptyDir", "secret"} for volume in pod["volumes"])
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "privileged": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_every_container_has_resources_and_probes_of_its_own_ports(render: Render, values: dict[str, Any]):
    for pod in pods(render(values)):
        for container in pod["containers"]:
            ports = {port["name"] for port in container["ports"]}
            probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
            assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
            assert {probe["port"] for probe in probes} <= ports
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]


def test_writable_are_only_the_scratch_directories(render: Render):
    for pod in pods(render(EVERYTHING)):
        for mount in pod["containers"][0]["volumeMounts"]:
            assert mount.get("readOnly", False) is (mount["mountPath"] not in ("/tmp", "/data")), mount


def test_mounts_and_volumes_belong_together(render: Render):
    documents = render(EVERYTHING)
    claims = {claim["metadata"]["name"] for claim in documents[EXECUTOR]["spec"]["volumeClaimTemplates"]}
    for pod in pods(documents):
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted - claims == {volume["name"] for volume in pod["volumes"]}


def test_the_rights_are_those_over_one_lease(render: Render):
    documents = render({})
    (role,) = [document for (kind, _), document in documents.items() if kind in ("Role", "ClusterRole")]
    assert role["kind"] == "Role"
    assert role["rules"] == [{
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["rel-dsms-coordinator"],
        "verbs": ["get", "update"],
    }]  # fmt: skip
    assert ("Lease", "rel-dsms-coordinator") in documents
    assert env(documents, COORDINATOR)["DSMS_LEASE"] == "rel-dsms-coordinator"
    assert not any(kind == "ClusterRoleBinding" for kind, _ in documents)


def test_limits_of_statements_are_those_of_the_values(render: Render):
    assert not {"DSMS_LIMITS", "DSMS_OPEN_TOPICS", "DSMS_REGISTRIES"} & env(render(), COORDINATOR).keys()
    given = {"limits": "columns=200", "openTopics": "dsms.hot", "registries": "registry:8081 *.example.org"}
    documents = render({f"coordinator.{name}": value for name, value in given.items()})
    found = env(documents, COORDINATOR)
    assert (found["DSMS_LIMITS"], found["DSMS_OPEN_TOPICS"], found["DSMS_REGISTRIES"]) == tuple(given.values())


def test_sinks_may_write_where_a_value_allows_it(render: Render):
    assert "DSMS_SINKS" not in env(render(), COORDINATOR)
    given = "delta:s3://lake/dsms"
    assert env(render({"coordinator.sinks": given}), COORDINATOR)["DSMS_SINKS"] == given


def test_the_coordinator_is_called_by_the_names_of_its_service(render: Render):
    names = env(render(), COORDINATOR)["DSMS_HOSTS"].split()
    assert [name.split(".", 1)[0] for name in names] == ["rel-dsms-coordinator"] * 3
    assert {".".join(name.split(".")[2:]) for name in names} == {"", "svc", "svc.cluster.local"}
    given = render({"api.hosts": "dsms.example.org", "api.clusterDomain": "corp"})
    assert env(given, COORDINATOR)["DSMS_HOSTS"].split()[2:] == [f"{names[1]}.corp", "dsms.example.org"]


def test_code_in_python_is_allowed_by_a_value(render: Render):
    assert "DSMS_PYTHON" not in env(render(), COORDINATOR)
    assert env(render({"coordinator.python": True}), COORDINATOR)["DSMS_PYTHON"] == "true"


def test_the_sandbox_of_python_is_set_where_its_workers_are(render: Render):
    assert env(render(), EXECUTOR)["DSMS_PYTHON_SANDBOX"] == "require"
    given = {"executor.pythonSandbox": "prefer", "executor.sparkPods.enabled": True}
    documents = render(given)
    assert env(documents, EXECUTOR)["DSMS_PYTHON_SANDBOX"] == "prefer"
    template = safe_load(documents["ConfigMap", "rel-dsms-spark"]["data"]["pod.yaml"])
    variables = {variable["name"]: variable.get("value") for variable in template["spec"]["containers"][0]["env"]}
    assert variables["DSMS_PYTHON_SANDBOX"] == "prefer"


def test_only_coordinators_hold_a_token_of_the_service_account(render: Render):
    documents = render({})
    for workload, mounted in ((COORDINATOR, True), (EXECUTOR, False)):
        assert documents[workload]["spec"]["template"]["spec"]["automountServiceAccountToken"] is mounted


def test_secrets_come_by_reference_and_command_lines_hold_nothing(render: Render):
    documents = render(EVERYTHING)
    for pod in pods(documents):
        container = pod["containers"][0]
        assert "args" not in container
        assert container["command"][:2] == ["/opt/dsms/bin/python", "-m"]
        assert len(container["command"]) == 3
    assert env(documents, EXECUTOR)["DSMS_REDIS"] == {"secretKeyRef": {"name": "redis-secret", "key": "url"}}
    assert env(documents, EXECUTOR)["DSMS_TOKEN"] == {"secretKeyRef": {"name": "token-secret", "key": "token"}}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert env(documents, EXECUTOR)[name] == {"secretKeyRef": {"name": "bucket-secret", "key": name}}
    assert not [name for kind, name in documents if kind == "Secret"]


def test_files_named_in_the_environment_are_mounted(render: Render):
    documents = render(EVERYTHING)
    for workload in (COORDINATOR, EXECUTOR):
        pod = documents[workload]["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        paths = set()
        for mount in pod["containers"][0]["volumeMounts"]:
            items = volumes.get(mount["name"], {}).get("secret", {}).get("items")
            paths |= {f"{mount['mountPath']}/{item['path']}" for item in items or ()}
            if items is None and "secret" in volumes.get(mount["name"], {}):
                paths |= {mount["mountPath"]}  # a secret with all of its keys
                paths |= {f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
        named = {value for value in env(documents, workload).values() if str(value).startswith("/etc/")}
        assert named
        assert named <= paths


def test_service_selects_coordinators_and_headless_service_selects_executors(render: Render):
    documents = render({})
    service, headless = documents["Service", "rel-dsms-coordinator"], documents["Service", "rel-dsms-executor"]
    assert headless["spec"]["clusterIP"] == "None"
    assert documents[EXECUTOR]["spec"]["serviceName"] == "rel-dsms-executor"
    for document, workload in ((service, COORDINATOR), (headless, EXECUTOR)):
        labels = documents[workload]["spec"]["template"]["metadata"]["labels"]
        assert document["spec"]["selector"].items() <= labels.items()
        assert documents[workload]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"] != headless["spec"]["selector"]
    assert env(documents, EXECUTOR)["DSMS_COORDINATOR"] == "http://rel-dsms-coordinator:8080"


def test_selectors_hold_no_version(render: Render):
    documents = render({})
    for document in documents.values():
        selector = document.get("spec", {}).get("selector", {})
        labels = selector.get("matchLabels", selector)
        assert not {"app.kubernetes.io/version", "helm.sh/chart"} & labels.keys()


def test_own_labels_of_pods_do_not_replace_those_that_select_them(render: Render):
    documents = render({"executor.podLabels": {"app\\.kubernetes\\.io/component": "x", "team": "a"}})
    text = documents[EXECUTOR]["spec"]["template"]["metadata"]["labels"]
    assert text["team"] == "a"
    assert text["app.kubernetes.io/component"] == "executor"


def test_tls_reaches_probes_service_address_and_files(render: Render):
    documents = render(EVERYTHING | {"api.executorTlsSecret": None})
    container = documents[COORDINATOR]["spec"]["template"]["spec"]["containers"][0]
    for kind in ("startup", "liveness", "readiness"):
        assert container[f"{kind}Probe"]["httpGet"]["scheme"] == "HTTPS"
    assert env(documents, EXECUTOR)["DSMS_COORDINATOR"] == "https://rel-dsms-coordinator:8080"
    assert env(documents, EXECUTOR)["SSL_CERT_FILE"] == "/etc/dsms/tls/ca.crt"
    assert env(documents, COORDINATOR)["DSMS_TLS_KEY"] == "/etc/dsms/tls/tls.key"


def test_with_certificates_of_executors_probes_have_a_port_without_tls(render: Render):
    documents = render(EVERYTHING)
    container = documents[COORDINATOR]["spec"]["template"]["spec"]["containers"][0]
    for kind in ("startup", "liveness", "readiness"):
        probe = container[f"{kind}Probe"]["httpGet"]
        assert (probe["scheme"], probe["port"]) == ("HTTP", "probes")
    assert {"name": "probes", "containerPort": 8082, "protocol": "TCP"} in container["ports"]
    variables = env(documents, COORDINATOR)
    assert (variables["DSMS_TLS_CLIENT_CA"], variables["DSMS_PROBE_PORT"]) == ("/etc/dsms/tls/ca.crt", "8082")
    assert env(documents, EXECUTOR)["DSMS_TLS_CLIENT_KEY"] == "/etc/dsms/client/tls.key"
    service = documents["Service", "rel-dsms-coordinator"]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_executors_are_evicted_one_by_one_and_the_leader_can_be_evicted(render: Render):
    documents = render({})
    (budget,) = [document["spec"] for (kind, _), document in documents.items() if kind == "PodDisruptionBudget"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"]["app.kubernetes.io/component"] == "executor"
    assert not any(kind == "PodDisruptionBudget" for kind, _ in render({"executor.podDisruptionBudget.enabled": False}))


def test_an_update_does_not_wait_for_ready_coordinators(render: Render):
    spec = render({})[COORDINATOR]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": "100%", "maxUnavailable": "100%"}


def test_cache_is_an_empty_dir_or_a_claim(render: Render):
    spec = render({})[EXECUTOR]["spec"]
    assert {"name": "data", "emptyDir": {"sizeLimit": "10Gi"}} in spec["template"]["spec"]["volumes"]
    assert "volumeClaimTemplates" not in spec
    kept = render({"executor.cache.persistent": True, "executor.cache.storageClass": "fast"})[EXECUTOR]["spec"]
    assert kept["volumeClaimTemplates"][0]["spec"] == safe_load(
        "{accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 10Gi}}}"
    )


@pytest.mark.parametrize(("workload", "program"), [(COORDINATOR, coordinator), (EXECUTOR, executor)])
def test_all_options_in_the_environment_are_known_to_the_programs(render: Render, workload: Any, program: Any):
    """A variable that no program reads would be ignored silently."""
    app = typer.Typer()
    app.command()(program.main)
    known = {option.envvar for option in typer.main.get_command(app).params}
    known |= {"DSMS_TOKEN", "DSMS_SECRETS_DIR", CERTIFICATE, KEY}
    named = {name for name in env(render(EVERYTHING), workload) if name.startswith("DSMS_")}
    assert named <= known, named - known


@pytest.mark.parametrize(("replicas", "fragments"), [(1, "1"), (3, "3")])
def test_queries_are_dealt_out_to_as_many_fragments_as_executors(render: Render, replicas: int, fragments: str):
    assert env(render({"executor.replicas": replicas}), COORDINATOR)["DSMS_FRAGMENTS"] == fragments


def test_the_number_of_executors_follows_the_load_where_the_values_say(render: Render):
    given = {"enabled": True, "minReplicas": 2, "maxReplicas": 5, "upSeconds": 20, "downSeconds": 600}
    documents = render({f"executor.autoscaling.{name}": value for name, value in given.items()})
    assert "replicas" not in documents[EXECUTOR]["spec"]  # or every upgrade would undo the coordinator's scaling
    assert "replicas" in render()[EXECUTOR]["spec"]
    found = env(documents, COORDINATOR)
    assert (found["DSMS_SCALE"], found["DSMS_FRAGMENTS"]) == (EXECUTOR[1], "5")
    bounds = ("DSMS_LEAST_EXECUTORS", "DSMS_MOST_EXECUTORS", "DSMS_SCALE_UP_SECONDS", "DSMS_SCALE_DOWN_SECONDS")
    assert [found[name] for name in bounds] == ["2", "5", "20", "600"]
    (role,) = [document for (kind, _), document in documents.items() if kind == "Role"]
    assert role["rules"][1:] == [{
        "apiGroups": ["apps"], "resources": ["statefulsets/scale"], "resourceNames": [EXECUTOR[1]],
        "verbs": ["get", "update"],
    }]  # fmt: skip


def test_metrics_and_traces_are_exported_as_the_values_say(render: Render):
    plain = render({})
    assert not any(kind == "ServiceMonitor" for kind, _ in plain)
    values = {
        "telemetry.otlpEndpoint": "http://collector:4318",
        "telemetry.serviceMonitor.enabled": True,
        "telemetry.serviceMonitor.labels": {"release": "prometheus"},
        "telemetry.serviceMonitor.tokenSecret.name": "reader",
    }
    documents = render(EVERYTHING | values)
    for workload in (COORDINATOR, EXECUTOR):
        assert env(documents, workload)["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
        assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in env(plain, workload)
    for name, port in (("rel-dsms-coordinator", "http"), ("rel-dsms-executor", "health")):
        monitor = documents["ServiceMonitor", name]
        service = documents["Service", name]
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] == port in [offered["name"] for offered in service["spec"]["ports"]]
        assert endpoint["path"] == "/metrics"
    (endpoint,) = documents["ServiceMonitor", "rel-dsms-coordinator"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["keySecret"] == {"name": "client-secret", "key": "tls.key"}
    assert endpoint["authorization"]["credentials"] == {"name": "reader", "key": "token"}


#: The names of metrics in Prometheus, also with the suffixes that histograms get.
METRICS = {
    name + added
    for name in (
        value.in_prometheus for value in vars(instruments).values() if isinstance(value, instruments.Instrument)
    )
    for added in ("", "_bucket", "_sum", "_count")
}


def test_alerts_and_dashboard_use_existing_metrics(render: Render):
    assert not {"PrometheusRule", "ConfigMap"} & {kind for kind, _ in render({})}
    values = {
        "telemetry.alerts.enabled": True, "telemetry.alerts.labels": {"release": "prometheus"},
        "telemetry.alerts.behindRecords": 5, "telemetry.dashboard.enabled": True, "executor.replicas": 3,
    }  # fmt: skip
    documents = render(values)
    rule = documents["PrometheusRule", "rel-dsms"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    (group,) = rule["spec"]["groups"]
    alerts = {each["alert"]: each for each in group["rules"]}
    assert len(alerts) == len(group["rules"]) >= 6
    assert alerts["DsmsExecutorsMissing"]["expr"].endswith("< 3")
    assert " > 5 and deriv(" in alerts["DsmsQueryBehind"]["expr"]
    assert "{{ $labels.query }}" in alerts["DsmsQueryBehind"]["annotations"]["summary"]
    dashboard = documents["ConfigMap", "rel-dsms-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    panels = json.loads(dashboard["data"]["dsms.json"])["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels) >= 10
    asked = [each["expr"] for each in group["rules"]] + [t["expr"] for panel in panels for t in panel["targets"]]
    for expression in asked:
        named = set(re.findall(r"\bdsms_\w+", expression))
        assert named and named <= METRICS, expression
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression
        assert expression.count("namespace=") >= len(named)


def test_every_alert_has_advice(render: Render):
    (group,) = render({"telemetry.alerts.enabled": True})["PrometheusRule", "rel-dsms"]["spec"]["groups"]
    advice = (ROOT / "docs" / "operations.md").read_text()
    assert all(f"| `{alert['alert']}` |" in advice for alert in group["rules"])


def test_the_network_policy_lets_in_who_is_named(render: Render):
    assert not any(kind == "NetworkPolicy" for kind, _ in render({}))
    peer = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
    values = {"networkPolicy.enabled": True, "networkPolicy.clients": [peer], "api.postgresPort": 5432}
    policy = render(values)["NetworkPolicy", "rel-dsms"]["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    own, clients, monitoring = policy["ingress"]
    assert own["from"] == [{"podSelector": policy["podSelector"]}]
    assert clients["from"] == [peer]
    assert [port["port"] for port in clients["ports"]] == ["http", "postgres"]
    assert "from" not in monitoring and monitoring["ports"] == [{"protocol": "TCP", "port": "health"}]


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_helm_test_asks_the_coordinator_as_an_executor_does(render: Render, values: dict[str, Any]):
    documents = render(values)
    pod = documents["Pod", "rel-dsms-test"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["/opt/dsms/bin/dsms", "sql", "-e", "SHOW EXECUTORS"]
    given = {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}
    assert given.items() <= env(documents, EXECUTOR).items()
    assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_clients_of_postgres_have_a_port_where_one_is_set(render: Render):
    documents = render({"api.postgresPort": 5432})
    assert env(documents, COORDINATOR)["DSMS_POSTGRES_PORT"] == "5432"
    (container,) = documents[COORDINATOR]["spec"]["template"]["spec"]["containers"]
    assert {"name": "postgres", "containerPort": 5432, "protocol": "TCP"} in container["ports"]
    service = documents[("Service", COORDINATOR[1])]
    assert {"name": "postgres", "port": 5432, "targetPort": "postgres", "protocol": "TCP"} in service["spec"]["ports"]
    assert "DSMS_POSTGRES_PORT" not in env(render({}), COORDINATOR)
