"""The queries that statements are replacing at the moment: one statement at a time claims a query."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from operators.core.errors import UserError


class BeingReplaced(UserError):
    """Another statement is replacing the query with this id; the call may succeed later."""

    def __init__(self, message: str, *, hint: str = "", query_id: str = "") -> None:
        super().__init__(message, hint=hint)
        self.query_id = query_id


class Replacements:
    """The claims of all replacements under way, as ids of queries. `ids` is an immutable value, read without a lock."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.ids: frozenset[str] = frozenset()

    def claim(self, queries: Iterable[Query]) -> frozenset[str]:
        """Claims all of the queries and returns their ids. If another statement has claimed one of them, claims none
        and raises BeingReplaced."""
        wanted = list(queries)
        with self._lock:
            for query in wanted:
                if query.id in self.ids:
                    message, hint = f'{query.kind} "{query.name}" is being replaced', "try again when that has ended"
                    raise BeingReplaced(message, hint=hint, query_id=query.id)
            claimed = frozenset(query.id for query in wanted)
            self.ids |= claimed
        return claimed

    def release(self, ids: Iterable[str]) -> None:
        """Releases claims."""
        with self._lock:
            self.ids -= frozenset(ids)
            self._lock.notify_all()

    def await_release(self, query_id: str, seconds: float) -> bool:
        """Waits until the query is not claimed, at most `seconds`. Returns whether it is not."""
        with self._lock:
            return self._lock.wait_for(lambda: query_id not in self.ids, seconds)


@dataclass
class Claim:
    """The queries that one statement has claimed so far.

    >>> replacements = Replacements()
    >>> query = Query(name="q", id="o1", sql="", kind="query", select="", topic="q")
    >>> first, second = Claim(replacements), Claim(replacements)
    >>> first.extend([query]), first.extend([query])
    (None, None)
    >>> second.extend([query])
    Traceback (most recent call last):
    dsms.coordinator.statements.replacements.BeingReplaced: query "q" is being replaced; try again when that has ended
    """

    replacements: Replacements
    ids: frozenset[str] = field(default_factory=frozenset)

    def extend(self, queries: Iterable[Query]) -> None:
        """Claims the queries that this statement has not claimed yet."""
        self.ids |= self.replacements.claim(query for query in queries if query.id not in self.ids)

    def of(self, catalog: Catalog) -> list[Query]:
        """The claimed queries in a catalog."""
        return [query for query in catalog.queries() if query.id in self.ids]

    def release(self) -> None:
        """Releases all claims."""
        self.replacements.release(self.ids)
        self.ids = frozenset()
