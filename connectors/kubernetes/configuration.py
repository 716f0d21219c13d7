"""The configuration of the Kubernetes client: that of this pod's service account, otherwise that of the user."""

from __future__ import annotations

from typing import Any

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from connectors.kubernetes.errors import translated


def configuration() -> Any:
    """The configuration of the pod, otherwise that of the user. Failed calls are not retried. Raises ConfigError if
    neither exists.
    """
    made = client.Configuration()
    with translated("reading its configuration"):
        try:
            config.load_incluster_config(client_configuration=made)
        except ConfigException:
            config.load_kube_config(client_configuration=made)
    made.retries = 0
    return made
