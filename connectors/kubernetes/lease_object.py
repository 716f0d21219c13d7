"""Reads and replaces a Kubernetes Lease object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from connectors.kubernetes.configuration import configuration
from connectors.kubernetes.errors import NOT_FOUND, translated
from connectors.kubernetes.lease import Lease


class KubernetesLease:
    """A Lease object, which need not exist. Each call ends within the time-out; it is not retried."""

    def __init__(self, namespace: str, name: str, timeout_s: float) -> None:
        self._api: Any = client.CoordinationV1Api(client.ApiClient(configuration()))
        self._namespace, self._name, self._timeout_s = namespace, name, timeout_s
        self._metadata = client.V1ObjectMeta(name=name, namespace=namespace)

    def read(self) -> Lease | None:
        """The content of the object; None if it does not exist."""
        with translated(f'reading lease "{self._name}"'):
            try:
                stored = self._api.read_namespaced_lease(self._name, self._namespace, _request_timeout=self._timeout_s)
            except ApiException as error:
                if error.status == NOT_FOUND:
                    return None
                raise
        return self._known(stored)

    def write(self, lease: Lease) -> Lease:
        """Writes the lease and returns it with its new version. Raises Conflict if its version is outdated. Labels and
        other metadata are kept."""
        spec = client.V1LeaseSpec(
            holder_identity=lease.holder,
            lease_duration_seconds=lease.seconds,
            lease_transitions=lease.transitions,
            renew_time=datetime.now(UTC),
        )
        self._metadata.resource_version = lease.version
        with translated(f'writing lease "{self._name}"'):
            return self._known(self._put(client.V1Lease(metadata=self._metadata, spec=spec), lease.version))

    def _put(self, body: Any, version: str | None) -> Any:
        if version is None:
            return self._api.create_namespaced_lease(self._namespace, body, _request_timeout=self._timeout_s)
        return self._api.replace_namespaced_lease(self._name, self._namespace, body, _request_timeout=self._timeout_s)

    def _known(self, stored: Any) -> Lease:
        self._metadata = stored.metadata
        return _lease(stored)


def _lease(stored: Any) -> Lease:
    spec = stored.spec
    if spec is None:
        return Lease(version=stored.metadata.resource_version)
    return Lease(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 1,
        spec.lease_transitions or 0,
        stored.metadata.resource_version,
    )
