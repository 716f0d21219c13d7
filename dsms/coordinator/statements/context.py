"""What the statements of a cluster are run with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from dsms.coordinator.audit.audit_log import Audit, NoAudit
from dsms.coordinator.catalog.catalog_store import CatalogStore, Change, Decide
from dsms.coordinator.statements.change_rights import check_change, check_owned, with_owners
from dsms.coordinator.statements.control_tables import ControlStatement
from dsms.coordinator.statements.environment import ClusterEnvironment, ClusterFacts
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.statements.replacements import Replacements
from dsms.coordinator.watcher.executors import PlanWatch
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.objects import Query, Table
from dsms.model.principal import Caller, Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.model.topic_rules import TopicRules
from dsms.registration.kinds.replay import Replay
from dsms.tables.statements import Write

_T = TypeVar("_T")


class TableRunner(Protocol):
    """Runs what reads and writes rows; `TableStatements` does it over Kafka."""

    def run(
        self, statement: st.Select | Write | Load, principal: Principal, cancelled: threading.Event
    ) -> StatementResult:
        """Runs a SELECT, INSERT, UPDATE, DELETE or load; Forbidden where it reads or writes what he may not. A SELECT
        fails once it is cancelled."""
        ...

    def emptied(self, name: st.Name) -> AbstractContextManager[dict[int, int]]:
        """Where the log of a table ends, which has no rows and gets none meanwhile. UserError if it has some."""
        ...

    def follow(self) -> None:
        """Promises the time to the readers of new tables."""
        ...


class ControlAnswers(Protocol):
    """Answers statements about what runs; `ControlTables` does it."""

    def answer(self, statement: ControlStatement, principal: Principal) -> StatementResult:
        """What the statement asks for, of queries that `principal` may read; `ALTER EXECUTOR` is done."""
        ...


class ReplayRunner(Protocol):
    """Writes refused records again; `Replays` does it in Kafka."""

    def run(self, statement: Replay, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Writes those that the statement means, or none where it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class StatementContext:
    """The catalog, the cluster, what runs the statements that are not about the catalog, what deletes the topic of a
    dropped object, how to wait for executors, whose statement it is, what statements may ask for and name, where they
    are noted, and the replacements under way."""

    store: CatalogStore
    facts: ClusterFacts
    control: ControlAnswers
    tables: TableRunner
    replays: ReplayRunner
    delete_topic: Callable[[Query | Table], None]
    plans: PlanWatch
    caller: Caller
    limits: Limits = Limits()
    topic_rules: TopicRules = TopicRules()
    registry_hosts: RegistryHosts = RegistryHosts()
    #: Whether statements may deploy code in Python.
    python: bool = False
    audit: Audit = field(default_factory=NoAudit)
    replacements: Replacements = field(default_factory=Replacements)
    #: Set once nobody waits for the answer.
    cancelled: threading.Event = field(default_factory=threading.Event)

    def by(self, caller: Caller, cancelled: threading.Event | None = None) -> StatementContext:
        """The context of another caller's statements, which end early once they are cancelled."""
        return replace(self, caller=caller, cancelled=cancelled or threading.Event())

    def environment(self, *, halted: bool = False) -> ClusterEnvironment:
        """The outside world as the caller may see and change it; with `halted` the queries that his statement replaces
        publish nothing any more."""
        return ClusterEnvironment(self.facts, self.caller.principal, self.limits, self.topic_rules, halted=halted)

    def change(self, decide: Decide[_T]) -> Change[_T]:
        """Makes a change of the catalog in the caller's name; Forbidden for one that he may not make, whatever
        statement it comes from."""

        def checked(catalog: Catalog) -> tuple[Catalog, _T]:
            after, answer = decide(catalog)
            check_change(self.caller.principal, catalog, after)
            owned = with_owners(self.caller.principal, catalog, after)
            check_owned(self.caller.principal, catalog, owned, self.limits.token_queries)
            return owned, answer

        return self.store.change(checked)
