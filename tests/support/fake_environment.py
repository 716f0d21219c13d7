"""A fake of registration's environment: a topic is a dict of the first offset of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.objects import FirstOffsets, Object, Query, Source
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import TopicRules
from dsms.planner.physical.cost.estimate import Statistics
from dsms.statements.registry import apply, parse
from operators.core.errors import UserError


@dataclass
class FakeEnvironment:
    """An `Environment` with the `known` topics; a missing one is created if its number of partitions is given."""

    known: dict[str, dict[int, int]] = field(default_factory=dict)
    fragments: int = 1
    cluster: str = "main"
    #: The cluster whose mark result records have.
    marked_by: str | None = None
    #: By topic, warnings about records that sources may lose.
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: By topic, the first offset that each partition still has.
    earliest_known: dict[str, dict[int, int]] = field(default_factory=dict)
    limits: Limits = NO_LIMITS
    topic_rules: TopicRules = TopicRules()

    def utilization(self) -> dict[str, float]:
        return {str(number): 0.0 for number in range(self.fragments)}

    def statistics(self) -> Statistics:
        return Statistics()

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        if topic not in self.known and partitions is None:
            raise UserError(f'topic "{topic}" not found', hint="add PARTITIONS n to make it")
        return self.known.setdefault(topic, dict.fromkeys(range(partitions or 1), 0))

    def topic_id(self, topic: str) -> str | None:
        return f"id of {topic}"

    def topic_warnings(self, topic: str) -> tuple[str, ...]:
        return self.warnings.get(topic, ())

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        return msgspec.structs.replace(query, topic_id=self.topic_id(query.topic), marked_by=self.cluster_mark())

    def cluster_mark(self) -> str | None:
        return self.marked_by

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        return None

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        return {
            source.id: self.earliest_known[source.topic] for source in sources if source.topic in self.earliest_known
        }

    def published(self, query: str) -> int | None:
        return None

    def state_of(self, entry: Object) -> str:
        return "known"

    def may_read(self, name: str) -> bool:
        return True

    def check_read(self, name: str) -> None: ...


def apply_all(
    sql: str, catalog: Catalog | None = None, environment: FakeEnvironment | None = None
) -> tuple[Catalog, list[StatementResult]]:
    """Applies statements to a catalog; returns the catalog after them, and their results."""
    catalog, results = catalog or Catalog(), []
    for statement in parse(sql):
        catalog, result = apply(statement, catalog, environment or FakeEnvironment({"t": {0: 0, 1: 0}}))
        results.append(result)
    return catalog, results
