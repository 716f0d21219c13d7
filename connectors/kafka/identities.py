"""Which cluster and which topics these are: a topic that is made anew gets another id under the same name."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from connectors.kafka.errors import translate, translated
from connectors.kafka.topics import TIMEOUT_S


def cluster_id(admin: AdminClient) -> str:
    """The id of the Kafka cluster; "" where the brokers do not tell."""
    with translated("asking for the id of the cluster"):
        return admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S).cluster_id or ""


def topic_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic; unknown topics are left out."""
    wanted = sorted(set(topics))
    if not wanted:
        return {}
    with translated("asking for the ids of topics"):
        futures = admin.describe_topics(TopicCollection(wanted), request_timeout=TIMEOUT_S)
    ids: dict[str, str] = {}
    for topic, future in futures.items():
        try:
            ids[topic] = str(future.result(TIMEOUT_S).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise translate(error.args[0], f'asking for the id of topic "{topic}"') from error
    return ids
