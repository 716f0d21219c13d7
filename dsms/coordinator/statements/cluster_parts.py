"""The parts of a cluster on which its statements depend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from dsms.coordinator.audit.audit_log import Audit, NoAudit
from dsms.coordinator.catalog.catalog_store import CatalogStore, Change, ChangeFunction
from dsms.coordinator.statements.change_rights import check_change, check_owned, with_owners
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.coordinator.statements.deletion_claims import DeletionClaims
from dsms.coordinator.statements.environment import ClusterFacts, cluster_environment
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.statements.replacements import Replacements
from dsms.coordinator.tables.point_selects import PointSelect
from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal
from dsms.model.sink_states import SinkState
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.model.topic_rules import TopicRules
from dsms.registration.environment import Environment, no_sinks
from dsms.statements.context import Logged
from dsms.tables.dml_effects import Write
from operators.core.errors import DsmsError

_T = TypeVar("_T")


class TableRunner(Protocol):
    """Runs statements that read and write rows; `TableStatements` does so over Kafka."""

    def select(self, statement: st.Select, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Runs a SELECT, which fails once it is cancelled. Raises Forbidden if the principal may not read what it
        reads."""
        ...

    def write(self, statement: Write, principal: Principal) -> StatementResult:
        """Runs an INSERT, UPDATE, DELETE or MERGE. Raises Forbidden if the principal may not read or write an object
        that it reads or writes."""
        ...

    def load(self, statement: Load, principal: Principal) -> StatementResult:
        """Runs a load. Raises Forbidden if the principal may not write the table."""
        ...

    def locked_empty(self, name: st.Name) -> AbstractContextManager[dict[int, int]]:
        """The end offsets of the log of an empty table, which gets no rows inside the block. Raises UserError if the
        table has rows."""
        ...

    def send_heartbeats(self) -> None:
        """Sends heartbeats to the readers of tables, if some wait for them."""
        ...

    def point_select(self, sql: str, *, known: bool = False) -> PointSelect | None:
        """The SELECT of a text that only looks up rows of a view by key; None for any other text. `known`: also None
        for a text that would have to be parsed first."""
        ...

    def look_up_all(self, asked: Sequence[tuple[PointSelect, Principal]]) -> list[StatementResult | DsmsError]:
        """Runs such SELECTs over one view, all at one instant. The answer is Forbidden if the principal may not read
        it."""
        ...

    def look_up(self, select: PointSelect, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Runs such a SELECT. Raises Forbidden if the principal may not read the view."""
        ...


class ReplayRunner(Protocol):
    """Writes refused records again; `Replays` does so in Kafka."""

    def run(self, statement: st.Replay, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Writes the records that the statement selects; writes none if it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClusterParts:
    """What statements depend on: the catalog, the facts about the cluster, the running entities, the runners of
    statements about rows and records, the function that deletes the topic of a dropped object, the wait for executors
    (`plans`), the caller, the limits and rules, the audit log, and the replacements under way."""

    store: CatalogStore
    facts: ClusterFacts
    control: ControlTables
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
    #: Raises UserError for a target to which sinks may not write.
    check_sink_target: Callable[[str], None] = no_sinks
    #: The states of sinks, by lower-case name.
    sink_states: Callable[[], Mapping[str, SinkState]] = dict
    #: All logged decisions about adjustments while queries run, such as rates of shedding.
    decisions: Callable[[], Iterable[Logged]] = tuple
    #: Set when nobody waits for the answer any more.
    cancelled: threading.Event = field(default_factory=threading.Event)

    def by(self, caller: Caller, cancelled: threading.Event | None = None) -> ClusterParts:
        """The parts for the statements of another caller, which end early when they are cancelled."""
        return replace(self, caller=caller, cancelled=cancelled or threading.Event())

    def environment(self, *, halted: bool = False) -> Environment:
        """The environment as the caller may see and change it. `halted`: the queries that the statement replaces no
        longer publish anything."""
        made = cluster_environment(
            self.facts,
            self.caller.principal,
            self.limits,
            self.topic_rules,
            halted=halted,
            dropped_topics=self.store.catalog.dropped_topics,
        )
        return replace(made, check_sink_target=self.check_sink_target, sink_states=self.sink_states)

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
