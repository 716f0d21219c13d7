"""The abilities of a cluster, on behalf of one caller, for statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from connectors.alarms import Alarm
from dsms.coordinator.statements.catalog_changes import apply_to_catalog
from dsms.coordinator.statements.cluster_parts import ClusterParts, TableRunner
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.introspection.entities import Report
from dsms.model import statements as st
from dsms.model.audit_entry import AuditEntry
from dsms.model.catalog import Catalog
from dsms.model.principal import Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.statements.context import Entity, Logged
from dsms.tables.dml_effects import Write


@dataclass(frozen=True)
class ClusterContext:
    """Implements `dsms.statements.context.Context`. Each ability first settles a write of the catalog in doubt, if its
    answer depends on the catalog."""

    parts: ClusterParts

    @property
    def catalog(self) -> Catalog:
        """The current catalog. It waits for no other statement."""
        self.parts.store.try_settle()
        return self.parts.store.catalog

    def apply(self, statement: st.Statement) -> StatementResult:
        """Changes the catalog by the `apply` of the statement's kind, and does what follows from the change."""
        return apply_to_catalog(statement, self.parts)

    def change(self, decide: Callable[[Catalog], Catalog]) -> Catalog:
        """Changes the catalog, and returns it."""
        return self.parts.change(lambda catalog: (decide(catalog), None)).after

    def await_halted(self, version: int) -> bool:
        """Whether all executors, and the fragments of all queries, follow a version of the catalog in time."""
        fragments = {name for query in self.catalog.queries() for name in query.needed_fragments}
        return self.parts.plans.await_halted(version, fragments)

    def positions(self, source: str, partition: int) -> list[int]:
        """The next offsets that queries read of a partition of a source, given by id."""
        return self.parts.plans.positions(source, partition)

    def select(self, statement: st.Select) -> StatementResult:
        """Runs a one-time SELECT, which fails once it is cancelled."""
        return self._tables().select(statement, self._principal, self.parts.cancelled)

    def write(self, statement: Write) -> StatementResult:
        """Writes rows of a table."""
        return self._tables().write(statement, self._principal)

    def load(self, statement: Load) -> StatementResult:
        """Adds the rows of a file or database to a table."""
        return self._tables().load(statement, self._principal)

    def locked_empty(self, table: st.Name) -> AbstractContextManager[dict[int, int]]:
        """The end offsets of the log of an empty table, which gets no rows inside the block."""
        return self.parts.tables.locked_empty(table)

    def replay(self, statement: st.Replay) -> StatementResult:
        """Writes refused records to their topic again."""
        self.parts.store.settle()
        return self.parts.replays.run(statement, self._principal, self.parts.cancelled)

    def reports(self) -> Sequence[Report]:
        """The last measurements of each fragment, of queries that the caller may read."""
        return self._control.reports()

    def size(self, query: str) -> float:
        """The size of a query's windows as a fraction of their ranges."""
        return self._control.states().size(query)

    def decisions(self) -> Iterable[Logged]:
        """All logged decisions about adjustments while queries run."""
        return self.parts.decisions()

    def alarms(self) -> Iterable[Alarm]:
        """The alarms of the coordinator and of the executors."""
        return self._control.all_alarms()

    def audit_entries(self, count: int) -> Sequence[AuditEntry]:
        """The last entries of the audit log, the newest first."""
        return self.parts.audit.last(count)

    def executors(self) -> Sequence[Entity]:
        """The living executors."""
        return self._control.entities("executors")

    def set_executor(self, name: str, changes: dict[str, Any]) -> None:
        """Changes settings of an executor from its next batch on."""
        self._control.set_executor(name, changes)

    @property
    def _principal(self) -> Principal:
        return self.parts.caller.principal

    @property
    def _control(self) -> ControlTables:
        return replace(self.parts.control, principal=self._principal)

    def _tables(self) -> TableRunner:
        """The runner of statements about rows. Raises ExternalError at once while Kafka is unavailable."""
        self.parts.store.check()
        self.parts.store.settle()
        return self.parts.tables
