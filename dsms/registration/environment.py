"""What changes of the catalog need from the system around them: limits, rights, topics in Kafka, measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.names import schema_prefix
from dsms.model.objects import FirstOffsets, Object, Query, Source, kind_of
from dsms.model.principal import ANYBODY, Principal
from dsms.model.sink_states import SinkState
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import TopicRules, check_name
from dsms.planner.physical.cost.estimate import Statistics
from operators.core.errors import SqlError, UserError


def no_sinks(target: str) -> None:
    """Raises UserError: there are no sinks without a cluster."""
    raise UserError("sinks are on a cluster only", hint="dsms sink NAME TARGET keeps a result of a cluster elsewhere")


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The values and functions by which a change of the catalog reads and changes the system around it, such as topics
    in Kafka. The coordinator and a LocalSession provide them. The defaults are those of a system without services:
    there is one fragment, every topic exists with one partition, nothing is published, and everything may be read.

    >>> Environment().source_topic("T", "t", None)
    {0: 0}
    """

    #: The limits on what statements may ask for.
    limits: Limits = NO_LIMITS
    #: Which topics statements may name.
    topic_rules: TopicRules = TopicRules(opened=("*",))
    #: The caller, whose rights apply.
    caller: Principal = ANYBODY.principal
    #: Returns the fragments to which queries can be assigned, ordered by name, each with its measured utilization: busy
    #: seconds per second, 0 if unknown.
    utilization: Callable[[], Mapping[str, float]] = lambda: {"0": 0.0}
    #: Returns statistics measured on the running queries.
    statistics: Callable[[], Statistics] = Statistics
    #: Returns the first offset of each partition, given the names of a source and of its topic. Creates the topic if a
    #: number of partitions is given; otherwise raises UserError if it does not exist.
    source_topic: Callable[[str, str, int | None], dict[int, int]] = lambda name, topic, partitions: {0: 0}
    #: Returns Kafka's id of an existing topic; None if topics have no ids.
    topic_id: Callable[[str], str | None] = lambda topic: None
    #: Returns warnings about records that a source over an existing topic may lose, for example by short retention.
    topic_warnings: Callable[[str], tuple[str, ...]] = lambda topic: ()
    #: Returns the query with its topic created and its schemas registered.
    result_topic: Callable[[Query, logical.Node], Query] = lambda query, node: query
    #: The name of the cluster, with which the names of its internal topics begin.
    cluster: str = ""
    #: Returns the cluster whose mark all records of new results and tables will have; None if they have no mark.
    cluster_mark: Callable[[], str | None] = lambda: None
    #: Returns an instant later than all records that the sources hold now; None if they are empty.
    instant_after: Callable[[Sequence[Source]], int | None] = lambda sources: None
    #: Returns the first offset that the topic of each source still has, by source id and partition.
    earliest: Callable[[Sequence[Source]], FirstOffsets] = lambda sources: {}
    #: Returns the instant below which a halted query, given by id, has published its results; None if it has published
    #: nothing.
    published: Callable[[str], int | None] = lambda query: None
    #: Raises UserError for a target to which sinks may not write.
    check_sink_target: Callable[[str], None] = no_sinks
    #: Returns the states of sinks, by lower-case name; one that has not run yet is missing.
    sink_states: Callable[[], Mapping[str, SinkState]] = dict
    #: Returns the state of an object as SHOW displays it.
    state_of: Callable[[Object], str] = lambda item: ""

    def may_read(self, name: str) -> bool:
        """Whether the caller may read the object of a name."""
        return self.caller.may_read(name)

    def check_read(self, name: str) -> None:
        """Raises Forbidden unless the caller may read the object; whether it exists makes no difference."""
        self.caller.check_read(name)


Applied = tuple[Catalog, StatementResult]


def names_for_caller(items: Iterable[Object], environment: Environment) -> str:
    """The names of objects, for messages. Objects that the caller may not read are counted, not named.

    >>> from dsms.model.user_defined import Function
    >>> users = [Function(name=name, id="o1", sql="", versions=()) for name in ("f()", "g()")]
    >>> names_for_caller(users, Environment())
    'f(), g()'
    """
    listed = list(items)
    names = [item.name for item in listed if environment.may_read(item.name)]
    hidden = len(listed) - len(names)
    if hidden:
        names.append(f"{hidden} object{'' if hidden == 1 else 's'} that you may not read")
    return ", ".join(names)


def shown_to_caller(item: Object, environment: Environment) -> str:
    """The kind and name of an object, for messages; without both if the caller may not read it.

    >>> from dsms.model.principal import AccessRules
    >>> source = Source(name="A", id="o1", sql="", columns=(), topic="a")
    >>> nobody = Principal("nobody", "writer", AccessRules())
    >>> shown_to_caller(source, Environment()), shown_to_caller(source, Environment(caller=nobody))
    ('source "A"', 'an object that you may not read')
    """
    may_read = environment.may_read(item.name)
    return f'{kind_of(item)} "{item.name}"' if may_read else "an object that you may not read"


def schema_not_found(name: st.Name) -> SqlError:
    """The error for a schema that does not exist."""
    return name.place.error(f'schema "{name.text}" not found', f"CREATE SCHEMA {name.text}")


def check_free(catalog: Catalog, name: st.Name) -> None:
    """Raises SqlError if the name is taken or too long, or its schema does not exist."""
    check_name(name)
    if (schema := schema_prefix(name.text)) and schema not in catalog.schemas:
        raise schema_not_found(st.Name(schema, name.place))
    if (taken := catalog.get(name.text)) is not None:
        raise name.place.error(
            f'a {kind_of(taken)} named "{taken.name}" already exists', "drop it first or choose another name"
        )
