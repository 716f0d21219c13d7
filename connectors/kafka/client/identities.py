"""The identity of the Kafka cluster."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from connectors.kafka.client.errors import translated
from connectors.kafka.client.topics import TIMEOUT_S


def cluster_id(admin: AdminClient) -> str:
    """The id of the Kafka cluster; "" if the brokers do not report it."""
    with translated("asking for the id of the cluster"):
        return admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S).cluster_id or ""
