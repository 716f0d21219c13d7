"""Checks the ids of result topics, so that a query never publishes into the topic of a later query with the same name.

Kafka's producers address topics by name. Suppose an executor pauses between two requests of a transaction, and its
query is dropped and another one created under the same name. After the pause its records would go to the topic of the
new query, and its progress would overwrite that of the new query.

A deleted topic never gets the same id again. So if all topics of a transaction still have their first ids after all
records are written, the records are in the right topics, whatever happens until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from connectors.kafka.client.errors import TopicRecreated
from dsms.model.objects import Query

#: Asks Kafka for the ids of topics, by name; topics that do not exist are left out.
AskIds = Callable[[Iterable[str]], Mapping[str, str]]


class ResultTopics:
    """The topics that a fragment publishes into.

    >>> query = Query(name="q", id="o2", sql="", kind="query", select="", topic="t", topic_id="a")
    >>> ResultTopics(lambda _: {"t": "a"}).check({"o2": query})
    >>> ResultTopics(lambda _: {"t": "b"}).check({"o2": query})
    Traceback (most recent call last):
    connectors.kafka.client.errors.TopicRecreated: topic "t" was deleted and created again, so query "q" does not \
publish into it; drop the query and create it again
    """

    def __init__(self, ask: AskIds) -> None:
        self._ask = ask
        #: The first known topic ids, by query, for queries whose catalog entry has no topic id: earlier versions of
        #: dsms stored none.
        self._first: dict[str, str] = {}

    def check(self, written: Mapping[str, Query]) -> None:
        """Raises TopicRecreated if the topic of a query, given by output id, is not the one that it was created with. A
        topic that does not exist is accepted: no reader can be misled."""
        ids = self._ask({query.topic for query in written.values()}) if written else {}
        wrong = {id: _reason(query) for id, query in written.items() if self._is_recreated(query, ids.get(query.topic))}
        if wrong:
            raise TopicRecreated(wrong)

    def _is_recreated(self, query: Query, current: str | None) -> bool:
        if current is None:
            return False
        known = query.topic_id or self._first.setdefault(query.id, current)
        return known != current


def _reason(query: Query) -> str:
    return (
        f'topic "{query.topic}" was deleted and created again, so query "{query.name}" does not publish into it; '
        "drop the query and create it again"
    )
