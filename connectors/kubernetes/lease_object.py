"""One Lease of Kubernetes, read and replaced as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from connectors.kubernetes.errors import NOT_FOUND, translated
from connectors.kubernetes.lease import Lease


class KubernetesLease:
    """The object, which may not be there. Every call ends within the time-out, and is tried once."""

    def __init__(self, namespace: str, name: str, timeout_s: float) -> None:
        self._api: Any = client.CoordinationV1Api(client.ApiClient(_configuration()))
        self._namespace, self._name, self._timeout_s = namespace, name, timeout_s
        self._metadata = client.V1ObjectMeta(name=name, namespace=namespace)

    def read(self) -> Lease | None:
        """What the object says; None when it is not there."""
        with translated(f'reading lease "{self._name}"'):
            try:
                found = self._api.read_namespaced_lease(self._name, self._namespace, _request_timeout=self._timeout_s)
            except ApiException as error:
                if error.status == NOT_FOUND:
                    return None
                raise
        return self._known(found)

    def write(self, lease: Lease) -> Lease:
        """The lease as written, with its new version; `Conflict` when the version is no longer the last. Labels and
        whatever else others wrote beside it stay."""
        spec = client.V1LeaseSpec(
            holder_identity=lease.holder, lease_duration_seconds=lease.seconds, lease_transitions=lease.transitions,
            renew_time=datetime.now(UTC),
        )  # fmt: skip
        self._metadata.resource_version = lease.version
        with translated(f'writing lease "{self._name}"'):
            return self._known(self._put(client.V1Lease(metadata=self._metadata, spec=spec), lease.version))

    def _put(self, body: Any, version: str | None) -> Any:
        if version is None:
            return self._api.create_namespaced_lease(self._namespace, body, _request_timeout=self._timeout_s)
        return self._api.replace_namespaced_lease(self._name, self._namespace, body, _request_timeout=self._timeout_s)

    def _known(self, found: Any) -> Lease:
        self._metadata = found.metadata
        return _lease(found)


def _configuration() -> Any:
    """That of the pod, else that of the user."""
    found = client.Configuration()
    with translated("reading how to reach it"):
        try:
            config.load_incluster_config(client_configuration=found)
        except ConfigException:
            config.load_kube_config(client_configuration=found)
    found.retries = 0
    return found


def _lease(found: Any) -> Lease:
    spec = found.spec
    if spec is None:
        return Lease(version=found.metadata.resource_version)
    return Lease(
        spec.holder_identity or "", spec.lease_duration_seconds or 1, spec.lease_transitions or 0,
        found.metadata.resource_version,
    )  # fmt: skip
