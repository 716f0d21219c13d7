"""The number of pods of a Kubernetes StatefulSet."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from connectors.kubernetes.configuration import configuration
from connectors.kubernetes.errors import translated


class KubernetesScale:
    """The `scale` of a StatefulSet, which must exist. Every call ends within the time-out, and is not retried."""

    def __init__(self, namespace: str, name: str, timeout_s: float = 5.0) -> None:
        self._api: Any = client.AppsV1Api(client.ApiClient(configuration()))
        self._namespace, self._name, self._timeout_s = namespace, name, timeout_s
        self._read: Any = None

    def count(self) -> int:
        """The desired number of pods. Raises ExternalError if it cannot be read."""
        with translated(f'reading the scale of "{self._name}"'):
            self._read = self._api.read_namespaced_stateful_set_scale(
                self._name, self._namespace, _request_timeout=self._timeout_s
            )
        return int(self._read.spec.replicas or 0)

    def ask_for(self, count: int) -> None:
        """Sets the desired number of pods. Raises Conflict if another client has changed the scale since `count`."""
        self._read.spec.replicas = count
        with translated(f'changing the scale of "{self._name}"'):
            self._api.replace_namespaced_stateful_set_scale(
                self._name, self._namespace, self._read, _request_timeout=self._timeout_s
            )
