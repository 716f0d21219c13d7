"""The topics of results by their ids, so that a query never publishes into the topic of a later one of its name.

Kafka's producers name topics. An executor that stands still between two requests of a transaction may go on after its
query was dropped and another one was created under the name: its records are then in the topic of that one, and its
progress has taken the place of that one's. A topic that was deleted never comes back under its id. So if all topics of
a transaction have the ids that they were made with once all records are written, then all records are in these topics,
whatever happens until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from connectors.kafka.errors import TopicMadeAnew
from dsms.model.objects import Query

#: Kafka's ids of topics, by name; those that do not exist are left out.
AskIds = Callable[[Iterable[str]], Mapping[str, str]]


class ResultTopics:
    """The topics that a fragment publishes into.

    >>> query = Query(name="q", id="o2", sql="", kind="query", select="", topic="t", topic_id="a")
    >>> ResultTopics(lambda _: {"t": "a"}).check({"o2": query})
    >>> ResultTopics(lambda _: {"t": "b"}).check({"o2": query})
    Traceback (most recent call last):
    connectors.kafka.errors.TopicMadeAnew: topic "t" was deleted and made anew: query "q" does not publish into it; \
drop the query, and create it again
    """

    def __init__(self, ask: AskIds) -> None:
        self._ask = ask
        #: The ids that the topics of queries had at first, by query: versions of dsms before this one stored none.
        self._first: dict[str, str] = {}

    def check(self, written: Mapping[str, Query]) -> None:
        """Raises TopicMadeAnew where the topic of a query, given by the id of its result, is not the one that it was
        created with. A topic that does not exist has no reader who could be misled."""
        ids = self._ask({query.topic for query in written.values()}) if written else {}
        wrong = {id: _reason(query) for id, query in written.items() if self._made_anew(query, ids.get(query.topic))}
        if wrong:
            raise TopicMadeAnew(wrong)

    def _made_anew(self, query: Query, present: str | None) -> bool:
        if present is None:
            return False
        known = query.topic_id or self._first.setdefault(query.id, present)
        return known != present


def _reason(query: Query) -> str:
    return (
        f'topic "{query.topic}" was deleted and made anew: query "{query.name}" does not publish into it; '
        "drop the query, and create it again"
    )
