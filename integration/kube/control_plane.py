"""A real control plane on this machine: etcd, the API server and the controllers that the chart's objects need."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dsms.local.ports import free_port
from dsms.local.process import ManagedProcess, ProcessSpec
from dsms.local.services import http_ready
from dsms.local.waiting import wait_until
from integration.kube import programs
from integration.kube.api import Api

SERVICE_RANGE = "10.96.0.0/16"
#: Without the controller that deletes the pods of unreachable nodes, as there is no real node.
CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "statefulset-controller", "endpointslice-controller",
    "serviceaccount-controller", "root-ca-certificate-publisher-controller", "disruption-controller",
    "garbage-collector-controller", "namespace-controller", "job-controller",
)  # fmt: skip


@dataclass
class ControlPlane:
    """A control plane, started and stopped as a whole. Everything that it writes is in its directory."""

    directory: Path
    _processes: list[ManagedProcess] = field(default_factory=list)
    _token: str = field(default_factory=lambda: secrets.token_hex(16))

    def start(self) -> Api:
        """Starts the control plane, and returns the administrator's access once all of it works."""
        self.directory.mkdir(parents=True)
        store = self._start_etcd()
        api = self._start_api_server(store)
        self._start_controllers(api)
        works = wait_until(lambda: api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None, 120)
        assert works, "the controllers do not work"
        return api

    def stop(self) -> None:
        """Ends all processes, the last started first."""
        for process in reversed(self._processes):
            process.kill()

    def _start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._start("etcd", (
            str(programs.etcd()), "--data-dir", str(self.directory / "etcd"), "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--log-level", "error",
        ), lambda: http_ready(f"{client}/health"))  # fmt: skip
        return client

    def _start_api_server(self, store: str) -> Api:
        port, keys, tokens = free_port(), self.directory / "accounts.key", self.directory / "tokens.csv"
        keys.write_bytes(_new_key())
        tokens.write_text(f"{self._token},admin,admin,system:masters\n")
        certificate = self.directory / "certificates" / "apiserver.crt"
        options = {
            "etcd-servers": store, "secure-port": port, "bind-address": "127.0.0.1", "advertise-address": "10.96.0.1",
            "endpoint-reconciler-type": "none", "cert-dir": certificate.parent, "authorization-mode": "RBAC",
            "service-cluster-ip-range": SERVICE_RANGE, "token-auth-file": tokens,
            "service-account-issuer": "https://kubernetes.default.svc", "service-account-key-file": keys,
            "service-account-signing-key-file": keys,
        }  # fmt: skip
        self._start("kube-apiserver", self._component("kube-apiserver", options), certificate.is_file)
        api = Api(f"https://127.0.0.1:{port}", certificate, self._token)
        assert wait_until(lambda: api.answers("/readyz"), 120, pause_s=0.2), self._log("kube-apiserver")
        return api

    def _start_controllers(self, api: Api) -> None:
        options = {
            "kubeconfig": api.kubeconfig(self.directory / "controllers.yaml"), "leader-elect": "false",
            "controllers": ",".join(CONTROLLERS), "secure-port": 0, "root-ca-file": api.ca,
            "service-account-private-key-file": self.directory / "accounts.key",
        }  # fmt: skip
        command = self._component("kube-controller-manager", options)
        self._start("kube-controller-manager", command, lambda: True)

    def _component(self, name: str, options: dict[str, object]) -> tuple[str, ...]:
        return str(programs.control_plane()), name, *(f"--{option}={value}" for option, value in options.items())

    def _start(self, name: str, command: tuple[str, ...], ready) -> None:
        process = ManagedProcess(ProcessSpec(name, command, self.directory / f"{name}.log", ready))
        self._processes.append(process)
        process.start()

    def _log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-3000:]


def _new_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
