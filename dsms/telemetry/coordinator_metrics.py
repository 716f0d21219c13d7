"""The metrics of a coordinator: the numbers of queries, executors and sinks by state, and unread records of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dsms.telemetry import instruments
from dsms.telemetry.telemetry import Attributes, Telemetry
from operators.core.errors import DsmsError

Documents = Callable[[], Iterable[Mapping[str, Any]]]
_Value = tuple[float, Attributes]


def observe_states(
    telemetry: Telemetry, queries: Documents, status: Callable[[], Mapping[str, Any]], sinks: Documents = tuple
) -> None:
    """Exports the numbers of queries, executors and sinks by state, and the number of unread records of each query."""
    telemetry.observe(instruments.QUERIES, lambda: _present(lambda: _by_state(queries())))
    telemetry.observe(instruments.EXECUTORS, lambda: _present(lambda: _by_state(status()["executors"].values())))
    telemetry.observe(instruments.SINKS, lambda: _present(lambda: _by_state(sinks())))
    telemetry.observe(instruments.QUERY_BEHIND, lambda: _present(lambda: _behind(status()["lag"])))


def _present(read: Callable[[], Iterable[_Value]]) -> list[_Value]:
    """The present values; none while Kafka or Redis is unavailable, which `/readyz` reports."""
    try:
        return list(read())
    except DsmsError:
        return []


def _by_state(documents: Iterable[Mapping[str, Any]]) -> Iterator[_Value]:
    counted = Counter(str(document["state"]) for document in documents)
    return ((count, {"state": state}) for state, count in counted.items())


def _behind(unread: Mapping[str, int | None]) -> Iterator[_Value]:
    return ((records, {"query": query}) for query, records in unread.items() if records is not None)
