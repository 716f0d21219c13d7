"""The context in which the statements of a cluster run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from dsms.coordinator.audit.audit_log import Audit, NoAudit
from dsms.coordinator.catalog.catalog_store import CatalogStore, Change, ChangeFunction
from dsms.coordinator.statements.change_rights import check_change, check_owned, with_owners
from dsms.coordinator.statements.control_tables import ControlStatement
from dsms.coordinator.statements.deletion_claims import DeletionClaims
from dsms.coordinator.statements.environment import ClusterEnvironment, ClusterFacts
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.statements.replacements import Replacements
from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.model.topic_rules import TopicRules
from dsms.registration.kinds.replay import Replay
from dsms.tables.statements import Write

_T = TypeVar("_T")


class TableRunner(Protocol):
    """Runs statements that read and write rows; `TableStatements` does so over Kafka."""

    def run(
        self, statement: st.Select | Write | Load, principal: Principal, cancelled: threading.Event
    ) -> StatementResult:
        """Runs a SELECT, INSERT, UPDATE, DELETE or load. Raises Forbidden if it reads or writes an object that the
        principal may not read or write. A SELECT fails once it is cancelled."""
        ...

    def locked_empty(self, name: st.Name) -> AbstractContextManager[dict[int, int]]:
        """The end offsets of the log of an empty table, which gets no rows inside the block. Raises UserError if the
        table has rows."""
        ...

    def send_heartbeats(self) -> None:
        """Sends heartbeats to the readers of tables, if some wait for them."""
        ...


class ControlAnswers(Protocol):
    """Answers statements about running entities; `ControlTables` does so."""

    def answer(self, statement: ControlStatement, principal: Principal) -> StatementResult:
        """Answers the statement, restricted to queries that `principal` may read. Carries out `ALTER EXECUTOR`."""
        ...


class ReplayRunner(Protocol):
    """Writes refused records again; `Replays` does so in Kafka."""

    def run(self, statement: Replay, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Writes the records that the statement selects; writes none if it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class StatementContext:
    """The dependencies of statements: the catalog, the facts about the cluster, the runners of statements that are not
    about the catalog, the function that deletes the topic of a dropped object, the wait for executors (`plans`), the
    caller, the limits and rules, the audit log, and the replacements under way."""

    store: CatalogStore
    facts: ClusterFacts
    control: ControlAnswers
    tables: TableRunner
    replays: ReplayRunner
    delete_topic: Callable[[DroppedTopic], None]
    plans: CatalogFollowers
    caller: Caller
    limits: Limits = Limits()
    topic_rules: TopicRules = TopicRules()
    registry_hosts: RegistryHosts = RegistryHosts()
    #: Whether statements may deploy code in Python.
    python: bool = False
    audit: Audit = field(default_factory=NoAudit)
    replacements: Replacements = field(default_factory=Replacements)
    #: The topics of dropped objects that are being deleted.
    deletions: DeletionClaims = field(default_factory=DeletionClaims)
    #: Set when nobody waits for the answer any more.
    cancelled: threading.Event = field(default_factory=threading.Event)

    def by(self, caller: Caller, cancelled: threading.Event | None = None) -> StatementContext:
        """The context of another caller's statements, which end early when they are cancelled."""
        return replace(self, caller=caller, cancelled=cancelled or threading.Event())

    def environment(self, *, halted: bool = False) -> ClusterEnvironment:
        """The environment as the caller may see and change it. `halted`: the queries that the statement replaces no
        longer publish anything."""
        return ClusterEnvironment(
            self.facts,
            self.caller.principal,
            self.limits,
            self.topic_rules,
            halted=halted,
            dropped_topics=self.store.catalog.dropped_topics,
        )

    def change(self, decide: ChangeFunction[_T]) -> Change[_T]:
        """Changes the catalog on behalf of the caller. Raises Forbidden if the caller may not make the change, whatever
        statement it comes from, and UserError if the caller would own too many queries."""

        def checked(catalog: Catalog) -> tuple[Catalog, _T]:
            after, answer = decide(catalog)
            check_change(self.caller.principal, catalog, after)
            owned = with_owners(self.caller.principal, catalog, after)
            check_owned(self.caller.principal, catalog, owned, self.limits.token_queries)
            return owned, answer

        return self.store.change(checked)
