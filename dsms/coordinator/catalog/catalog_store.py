"""The current catalog: an immutable value that readers take without a lock, and the only code that changes it.

The laws:

- The log is authoritative. A change takes effect here once the log has it. A write whose outcome is in doubt is settled
  by reading the log, before anything else is written.
- Changes are decided one after another, each against the catalog that the previous change left, so a decision never
  overwrites a catalog that it has not seen.
- No change waits for executors while it is decided: a statement that has to wait for them makes two changes.

There are two locks. `_deciding` is held while a change is decided and written, `_writing` while the log is written or
read. An event of the schema registry needs only the second, so a decision may register schemas.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dsms.model.catalog import Catalog
from operators.core.errors import ExternalError

Event = dict[str, Any]
_T = TypeVar("_T")
#: Returns the catalog after a change, and the answer of the change. The same version of the catalog means no change.
ChangeFunction = Callable[[Catalog], tuple[Catalog, _T]]


class ChangeLog(Protocol):
    """Stores the catalog and the events of the schema registry; `CatalogLog` does so in Kafka."""

    @property
    def in_doubt(self) -> bool:
        """Whether a failed write may be in the log nevertheless."""
        ...

    @property
    def replaced(self) -> bool:
        """Whether a newer coordinator has taken over: nothing may be written any more."""
        ...

    def check(self) -> None:
        """Raises ExternalError if the log does not answer; a write would then fail only later, its outcome in doubt."""
        ...

    def read(self) -> tuple[Catalog, list[Event]]:
        """The catalog and the registry's events as logged; settles a write in doubt."""
        ...

    def leads(self) -> bool:
        """Whether the log says that no newer coordinator has taken over."""
        ...

    def write(self, before: Catalog, after: Catalog) -> None:
        """Logs a change of the catalog as a whole."""
        ...

    def write_event(self, event: Event) -> None:
        """Logs an event of the schema registry."""
        ...


@dataclass(frozen=True)
class Change(Generic[_T]):
    """The catalog before and after a change, and the answer of the change."""

    before: Catalog
    after: Catalog
    answer: _T


class CatalogStore:
    """The current catalog. `apply_event` applies an event of the schema registry that was read from the log.
    `changed` is called after every change, outside the locks; it retries later what it cannot do at once."""

    def __init__(self, *, log: ChangeLog, apply_event: Callable[[Event], None], changed: Callable[[], None]) -> None:
        self._log, self._apply_event, self._changed = log, apply_event, changed
        self._deciding, self._writing = threading.Lock(), threading.Lock()
        self._catalog = self._read()

    @property
    def catalog(self) -> Catalog:
        """The current catalog; never waits."""
        return self._catalog

    @property
    def replaced(self) -> bool:
        """Whether a newer coordinator has taken over: this one writes nothing any more."""
        return self._log.replaced

    def check(self) -> None:
        """Raises ExternalError if the log does not answer."""
        self._log.check()

    def leads(self) -> bool:
        """Whether this coordinator leads according to the log, and none of its writes is in doubt."""
        with self._writing:
            return not self._log.in_doubt and self._log.leads()

    def change(self, decide: ChangeFunction[_T]) -> Change[_T]:
        """Makes a change; waits while another change is under way. If it raises, nothing has changed, unless its write
        is in doubt."""
        with self._deciding:
            change = self._make_change(decide)
        self._announce(change)
        return change

    def try_change(self, decide: ChangeFunction[_T]) -> Change[_T] | None:
        """Makes a change. If another change is under way, does nothing and returns None."""
        if not self._deciding.acquire(blocking=False):
            return None
        try:
            change = self._make_change(decide)
        finally:
            self._deciding.release()
        self._announce(change)
        return change

    def settle(self) -> None:
        """Settles a write whose outcome is in doubt: reads the catalog again from the log."""
        if self._log.in_doubt:
            with self._writing:
                self._settle()

    def try_settle(self) -> None:
        """Settles a write in doubt, unless the log is being written or read at the moment."""
        if self._log.in_doubt and self._writing.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._writing.release()

    def settled_version(self) -> int:
        """The version of the catalog after every write so far is settled. Raises ExternalError while the log cannot be
        written."""
        with self._writing:
            self._log.check()
            self._settle()
            return self._catalog.version

    def write_event(self, event: Event) -> None:
        """Logs an event of the schema registry."""
        with self._writing:
            if self._log.in_doubt:
                raise ExternalError("an earlier change to the registry is being settled", hint="try again")
            self._log.check()
            self._log.write_event(event)

    def _make_change(self, decide: ChangeFunction[_T]) -> Change[_T]:
        self.settle()
        before = self._catalog
        after, answer = decide(before)
        if after.version != before.version:
            self._write(before, after)
        return Change(before, after, answer)

    def _write(self, before: Catalog, after: Catalog) -> None:
        with self._writing:
            self._log.check()
            self._settle()
            if self._catalog.version != before.version:
                raise ExternalError("the catalog changed while the statement was running", hint="try again")
            self._log.write(before, after)
            self._catalog = after

    def _announce(self, change: Change[_T]) -> None:
        if change.after.version != change.before.version:
            self._changed()

    def _settle(self) -> None:
        if self._log.in_doubt:
            self._catalog = self._read()

    def _read(self) -> Catalog:
        catalog, events = self._log.read()
        for event in events:
            self._apply_event(event)
        return catalog
