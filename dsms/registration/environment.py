"""The interface through which registration sees the outside world, and an implementation without services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.objects import FirstOffsets, Object, Query, Source, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import TopicRules, check_name
from dsms.planner.physical.cost.estimate import Statistics


class Environment(Protocol):
    """Everything that registration needs to know about the outside world, and to do there."""

    @property
    def limits(self) -> Limits:
        """The limits on what statements may ask for."""
        ...

    @property
    def topic_rules(self) -> TopicRules:
        """Which topics statements may name."""
        ...

    def utilization(self) -> Mapping[str, float]:
        """The fragments to which queries can be assigned, ordered by name, each with its measured utilization: busy
        seconds per second, 0 if unknown."""
        ...

    def statistics(self) -> Statistics:
        """Statistics measured on the running queries."""
        ...

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition. Creates the topic if `partitions` is given; otherwise raises UserError
        if it does not exist."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of an existing topic; None if topics have no ids."""
        ...

    def topic_warnings(self, topic: str) -> tuple[str, ...]:
        """Warnings about records that a source over an existing topic may lose, for example by short retention."""
        ...

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with its topic created and its schemas registered."""
        ...

    def cluster_mark(self) -> str | None:
        """The cluster whose mark all records of new results and tables will have; None if they have no mark."""
        ...

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        """An instant later than all records that the sources hold now; None if they are empty."""
        ...

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offset that the topic of each source still has, by source id and partition."""
        ...

    def published(self, query: str) -> int | None:
        """The instant below which a halted query (by id) has published its results; None if it has published
        nothing."""
        ...

    def state_of(self, item: Object) -> str:
        """The state of an object as SHOW displays it."""
        ...

    def may_read(self, name: str) -> bool:
        """Whether the caller may read the object of a name."""
        ...

    def check_read(self, name: str) -> None:
        """Raises Forbidden unless the caller may read the object; whether it exists makes no difference."""
        ...


class FixedEnvironment:
    """An environment without services: one fragment, every topic exists with one partition, nothing is published.

    >>> FixedEnvironment().source_topic("T", "t", None)
    {0: 0}
    """

    limits = NO_LIMITS
    topic_rules = TopicRules(opened=("*",))

    def __init__(self, state: str = "") -> None:
        self._state = state

    def utilization(self) -> Mapping[str, float]:
        """The only fragment, which is idle."""
        return {"0": 0.0}

    def statistics(self) -> Statistics:
        """Empty: nothing was measured."""
        return Statistics()

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """One partition, from its beginning."""
        return {0: 0}

    def topic_id(self, topic: str) -> str | None:
        """None: there are no topics."""
        return None

    def topic_warnings(self, topic: str) -> tuple[str, ...]:
        """Empty: there are no topics."""
        return ()

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query, unchanged."""
        return query

    def cluster_mark(self) -> str | None:
        """None: there are no clusters."""
        return None

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        """None: all sources are empty."""
        return None

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """Empty: no records were deleted."""
        return {}

    def published(self, query: str) -> int | None:
        """None: nothing is published."""
        return None

    def state_of(self, item: Object) -> str:
        """The same state for all objects."""
        return self._state

    def may_read(self, name: str) -> bool:
        """Everything may be read."""
        return True

    def check_read(self, name: str) -> None:
        """Everything may be read."""


Applied = tuple[Catalog, StatementResult]


def names_for_caller(items: Iterable[Object], environment: Environment) -> str:
    """The names of objects, for messages. Objects that the caller may not read are counted, not named.

    >>> from dsms.model.objects import Function
    >>> users = [Function(name=name, id="o1", sql="", versions=()) for name in ("f()", "g()")]
    >>> names_for_caller(users, FixedEnvironment())
    'f(), g()'
    """
    listed = list(items)
    names = [item.name for item in listed if environment.may_read(item.name)]
    hidden = len(listed) - len(names)
    if hidden:
        names.append(f"{hidden} object{'' if hidden == 1 else 's'} that you may not read")
    return ", ".join(names)


def check_free(catalog: Catalog, name: st.Name) -> None:
    """Raises SqlError if the name is taken or too long."""
    check_name(name)
    if (taken := catalog.get(name.text)) is not None:
        raise name.place.error(
            f'a {kind_of(taken)} named "{taken.name}" already exists', "drop it first or choose another name"
        )
