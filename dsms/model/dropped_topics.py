"""Topics of dropped queries and tables, which the catalog keeps until they are deleted."""

from __future__ import annotations

import msgspec


class DroppedTopic(msgspec.Struct, frozen=True):
    """A topic that has to be deleted, because the query or table that wrote it was dropped.

    It is part of the catalog from the drop until the topic is deleted. A coordinator that ends in between therefore
    leaves no topic behind: the next one deletes it. Until then no new object can use the topic.
    """

    topic: str
    #: The id of the dropped query or table.
    owner: str
    #: Kafka's id of the topic; None if the brokers give no ids. A topic of another id was created later and is kept.
    topic_id: str | None = None
    #: Whether the owner was a query that several fragments ran, so that it has links, which are deleted too.
    linked: bool = False
