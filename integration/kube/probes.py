"""The probes of a container, over HTTP or by a connection, each with its own pace and thresholds."""

import socket
import time
from dataclasses import dataclass, field

import httpx

from integration.kube.api import Document


@dataclass
class Probe:
    """One probe; `passed` is None until it has reached a threshold."""

    url: str
    period_s: float
    timeout_s: float
    failures_needed: int
    successes_needed: int
    passed: bool | None = None
    _next: float = 0.0
    _streak: list[bool] = field(default_factory=list)

    def probe_if_due(self) -> bool | None:
        """Probes if the next probe is due."""
        if time.monotonic() < self._next:
            return self.passed
        self._next = time.monotonic() + self.period_s
        self._take(_answers(self.url, self.timeout_s))
        return self.passed

    def _take(self, good: bool) -> None:
        self._streak = [*(self._streak if self._streak and self._streak[-1] is good else []), good]
        if len(self._streak) >= (self.successes_needed if good else self.failures_needed):
            self.passed = good


def probe(container: Document, kind: str, address: str) -> Probe | None:
    """The container's probe of a kind; None if it has none."""
    stated = container.get(f"{kind}Probe")
    if stated is None:
        return None
    get = stated.get("httpGet") or {"scheme": "tcp", "path": "", **stated["tcpSocket"]}
    port = next((port["containerPort"] for port in container["ports"] if port["name"] == get["port"]), get["port"])
    return Probe(
        f"{get.get('scheme', 'HTTP').lower()}://{address}:{port}{get['path']}", stated["periodSeconds"],
        stated["timeoutSeconds"], stated["failureThreshold"], stated["successThreshold"],
    )  # fmt: skip


def _answers(url: str, timeout_s: float) -> bool:
    """Whether a request or a connection succeeds; like the kubelet it does not verify certificates."""
    if url.startswith("tcp://"):
        host, _, port = url.removeprefix("tcp://").rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except OSError:
            return False
        return True
    try:
        status = httpx.get(url, timeout=timeout_s, trust_env=False, verify=False).status_code
    except httpx.HTTPError:
        return False
    return 200 <= status < 400
