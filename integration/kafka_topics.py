"""Topics for tests."""

from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic

from dsms.local.waiting import wait_until

TopicFactory = Callable[..., str]


def create_topic(kafka: str, name: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    """Creates a topic, waits until the broker lists it and returns its name."""
    admin = AdminClient({"bootstrap.servers": kafka})
    created = admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])
    created[name].result(30)
    assert wait_until(lambda: name in admin.list_topics(timeout=10).topics, 120), f"the broker does not show {name}"
    return name
