"""The system as statements see it: the protocol that the coordinator and a LocalSession implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from connectors.alarms import Alarm
from dsms.introspection.entities import Report
from dsms.model import statements as st
from dsms.model.audit_entry import AuditEntry
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.tables.dml_effects import Write
from operators.streams.settings import LoggedSetting

#: A logged decision: the id of a query, the id of a source with a partition of its topic, and the setting.
Logged = tuple[str, tuple[str, int], LoggedSetting]
#: A running entity with its attributes.
Entity = dict[str, Any]


class Context(Protocol):
    """The abilities of a system on behalf of one caller: reads leave out what the caller may not read. A system without
    an ability raises UserError with a hint."""

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        ...

    def apply(self, statement: st.Statement) -> StatementResult:
        """Changes the catalog by the `apply` of the statement's kind, and does what follows from the change: for
        example, waits until executors publish no more results of a dropped query."""
        ...

    def change(self, decide: Callable[[Catalog], Catalog]) -> Catalog:
        """Changes the catalog, and returns it."""
        ...

    def await_halted(self, version: int) -> bool:
        """Whether all executors follow a version of the catalog in time."""
        ...

    def positions(self, source: str, partition: int) -> list[int]:
        """The next offsets that queries read of a partition of a source, given by id."""
        ...

    def select(self, statement: st.Select) -> StatementResult:
        """Runs a one-time SELECT."""
        ...

    def write(self, statement: Write) -> StatementResult:
        """Writes rows of a table."""
        ...

    def load(self, statement: Load) -> StatementResult:
        """Adds the rows of a file or database to a table."""
        ...

    def locked_empty(self, table: st.Name) -> AbstractContextManager[Mapping[int, int]]:
        """The end offsets of the log of an empty table, which gets no rows inside the block. Raises UserError if the
        table has rows."""
        ...

    def replay(self, statement: st.Replay) -> StatementResult:
        """Writes the refused records that a REPLAY selects to their topic again."""
        ...

    def reports(self) -> Sequence[Report]:
        """The last measurements of each fragment."""
        ...

    def size(self, query: str) -> float:
        """The size of a query's windows as a fraction of their ranges, given the query's id; 1 if it is unknown."""
        ...

    def decisions(self) -> Iterable[Logged]:
        """All logged decisions about adjustments while queries run, such as rates of shedding."""
        ...

    def alarms(self) -> Iterable[Alarm]:
        """Reports of invalid data in logs and in Redis."""
        ...

    def audit_entries(self, count: int) -> Sequence[AuditEntry]:
        """The last entries of the audit log, the newest first."""
        ...

    def executors(self) -> Sequence[Entity]:
        """The living executors."""
        ...

    def set_executor(self, name: str, changes: dict[str, Any]) -> None:
        """Changes settings of an executor from its next batch on. None restores the value it was started with."""
        ...
