"""The chart installed by helm into a cluster, and how a user reaches it."""

import base64
import os
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from integration.kube import programs
from integration.kube.addresses import on_this_machine
from integration.kube.api import Api
from integration.kube.kubelet import Kubelet
from integration.kube.pod_runner import PodRunner
from integration.kube.service_proxy import ready_endpoints

CHART = Path(__file__).parents[2] / "helm" / "dsms"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass
class Release:
    """One release in a namespace of its own, which admits only pods of the restricted profile."""

    api: Api
    kubelet: Kubelet
    directory: Path
    #: The token of an administrator; empty if the API has no tokens.
    token: str
    namespace: str = "streams"
    name: str = "dsms"
    #: The certificate authority of the API; empty if it is served without TLS.
    ca: bytes = b""

    def prepare(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Creates the namespace and the secrets that the values refer to."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace, "labels": RESTRICTED}})
        for name, content in secrets.items():
            data = {key: base64.b64encode(value).decode() for key, value in content.items()}
            self.api.create(self.path("secrets"), {"metadata": {"name": name}, "data": data})

    def helm(self, verb: str, values: Mapping[str, Any] | None = None, *options: str) -> None:
        """Runs helm on the release; with values, on the chart."""
        file = self.directory / "values.yaml"
        if values is not None:
            file.write_text(yaml.safe_dump(dict(values)))
        chart = [str(CHART), "--values", str(file)] if values is not None else []
        command = [str(programs.helm()), verb, self.name, *chart, "--namespace", self.namespace, "--wait", *options]
        access = self.api.kubeconfig(self.directory / "kubeconfig")
        env = {**os.environ, "KUBECONFIG": str(access), "HOME": str(self.directory)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.kubelet.logs()}"

    def values(self) -> dict[str, Any]:
        """The values that helm was last given."""
        return yaml.safe_load((self.directory / "values.yaml").read_text())

    def path(self, kind: str, name: str = "", group: str = "/api/v1") -> str:
        """The API path of an object, or of all objects of a kind."""
        return f"{group}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    @property
    def service(self) -> str:
        """The Service of the leading coordinator."""
        return f"{self.name}-coordinator"

    def leaders(self) -> list[PodRunner]:
        """The coordinators behind the Service."""
        ready = {address for address, _ in ready_endpoints(self.api, self.namespace, self.service)}
        return [pod for pod in list(self.kubelet.pods.values()) if on_this_machine(pod.address) in ready]

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        extra: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        """A request through the Service, as from within the cluster, with `extra` headers."""
        service = self.api.get(self.path("services", self.service))
        scheme, context = ("https", ssl.create_default_context(cadata=self.ca.decode())) if self.ca else ("http", False)
        url = f"{scheme}://{on_this_machine(service['spec']['clusterIP'])}:{service['spec']['ports'][0]['port']}{path}"
        given = self.token if token is None else token
        headers = {**({"Authorization": f"Bearer {given}"} if given else {}), **(extra or {})}
        with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            return client.request(method, url, headers=headers, extensions={"sni_hostname": self.service}, **options)

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Runs statements."""
        answer = self.ask("POST", "/v1/statements", json={"sql": text})
        assert answer.is_success, f"{answer.text}\n{self.kubelet.logs()}"
        return answer.json()["results"]

    def document(self, path: str) -> Any:
        """The coordinator's document at a path."""
        answer = self.ask("GET", path)
        assert answer.is_success, answer.text
        return answer.json()
