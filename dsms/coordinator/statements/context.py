"""What the statements of a cluster are run with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.statements.control_tables import ControlStatement
from dsms.coordinator.statements.environment import ClusterEnvironment, ClusterFacts
from dsms.coordinator.statements.replacements import Replacements
from dsms.coordinator.watcher.executors import PlanWatch
from dsms.model import statements as st
from dsms.model.limits import Limits
from dsms.model.objects import Query, Table
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.model.topic_rules import TopicRules
from dsms.tables.statements import Write


class TableRunner(Protocol):
    """Runs what reads and writes rows; `TableStatements` does it over Kafka."""

    def run(self, statement: st.Select | Write | Load, cancelled: threading.Event) -> StatementResult:
        """Runs a SELECT, INSERT, UPDATE, DELETE or load. A SELECT fails once it is cancelled."""
        ...

    def follow(self) -> None:
        """Promises the time to the readers of new tables."""
        ...


class ControlAnswers(Protocol):
    """Answers statements about what runs; `ControlTables` does it."""

    def answer(self, statement: ControlStatement) -> StatementResult:
        """What the statement asks for; `ALTER EXECUTOR` is done."""
        ...


@dataclass(frozen=True, kw_only=True)
class StatementContext:
    """The catalog, the cluster, what runs the statements that are not about the catalog, what deletes the topic of a
    dropped object, how to wait for executors, what statements may ask for
    and name, and the replacements under way."""

    store: CatalogStore
    facts: ClusterFacts
    control: ControlAnswers
    tables: TableRunner
    delete_topic: Callable[[Query | Table], None]
    plans: PlanWatch
    limits: Limits = Limits()
    topic_rules: TopicRules = TopicRules()
    replacements: Replacements = field(default_factory=Replacements)
    #: Set once nobody waits for the answer.
    cancelled: threading.Event = field(default_factory=threading.Event)

    def environment(self, *, halted: bool = False) -> ClusterEnvironment:
        """The outside world of one statement; with `halted` the queries that it replaces publish nothing any more."""
        return ClusterEnvironment(self.facts, self.limits, self.topic_rules, halted=halted)
