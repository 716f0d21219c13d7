"""Objects that every cluster has: the control tables as streams. Their names begin with `dsms_`, and nobody else's do.

Their ids and numbers are none of those that statements give out, so they change nothing for other objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

import msgspec

from connectors.kafka.names import internal_topic
from dsms.introspection.sample_records import COLUMNS
from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream
from dsms.registration.statements import apply
from dsms.sql.parser.parse import parse
from operators.core.delta import MAX_SOURCES

PREFIX = "dsms_"


def is_system(found: Object) -> bool:
    """Whether an object belongs to the system."""
    return isinstance(found, Source | Stream) and found.id.startswith("d")


def with_system_objects(catalog: Catalog, cluster: str, fragments: int) -> Catalog:
    """The catalog with the system's objects that it lacks; the same one where it lacks none, or where their names were
    taken before they were the system's.

    >>> sorted(with_system_objects(Catalog(), "main", 1).objects)
    ['dsms_operators', 'dsms_operators_source', 'dsms_queues', 'dsms_queues_source']
    """
    missing = {name: one for name, one in _made(cluster, fragments).items() if catalog.get(name) != one}
    if not missing or any((taken := catalog.get(name)) and not is_system(taken) for name in missing):
        return catalog
    return Catalog(catalog.version + 1, catalog.ids, {**missing, **catalog.objects, **missing})


def system_sources(cluster: str) -> list[Source]:
    """The sources among them."""
    return [one for one in _made(cluster, 1).values() if isinstance(one, Source)]


def _made(cluster: str, fragments: int) -> dict[str, Object]:
    """The objects by name: made by statements, as others are, then given ids and numbers of their own."""
    catalog = Catalog()
    for purpose, columns in COLUMNS.items():
        topic = internal_topic(cluster, purpose)
        sql = (
            f"CREATE STREAM {PREFIX}{purpose} ({columns}) SOURCE '{topic}' "
            "TIMESTAMP LATENT TAGGED NONE IDLE AFTER 2 SECONDS"
        )
        for statement in parse(sql):
            catalog, _ = apply(statement, catalog, _Nothing())
    numbered = enumerate(catalog.objects.items(), 1)
    return {name: _placed(one, f"d{number}", fragments) for number, (name, one) in numbered}


def _placed(one: Object, id: str, fragments: int) -> Object:
    if not isinstance(one, Source):
        return msgspec.structs.replace(one, id=id)
    number = MAX_SOURCES - 1 - one.number
    return msgspec.structs.replace(one, id=id, number=number, home=str(number % fragments))


def refuse_reserved(statement: st.Statement, catalog: Catalog) -> None:
    """Raises SqlError for a statement that would make, change or drop an object with a name of the system's. One that
    has such a name from before it was the system's can be dropped."""
    name = _changed(statement)
    if name is None or not name.text.lower().startswith(PREFIX):
        return
    found = catalog.get(name.text)
    if found is None or is_system(found):
        raise name.place.error(f'names that begin with "{PREFIX}" are the system\'s: "{name.text}"')


@singledispatch
def _changed(statement: st.Statement) -> st.Name | None:
    return None


@_changed.register(st.RegisterSource)
@_changed.register(st.CreateStream)
@_changed.register(st.DeclareStream)
@_changed.register(st.CreateTable)
@_changed.register(st.ContinuousQuery)
@_changed.register(st.ReplaceQuery)
@_changed.register(st.Drop)
def _(
    statement: st.RegisterSource | st.CreateStream | st.DeclareStream | st.CreateTable | st.ContinuousQuery
    | st.ReplaceQuery | st.Drop,
) -> st.Name | None:  # fmt: skip
    return statement.name


class _Nothing:
    """An outside world for declarations over topics of one partition."""

    def busy(self) -> Mapping[str, float]:
        return {"0": 0.0}

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        return {0: 0}

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        return query

    def reached(self, sources: Sequence[Source]) -> int | None:
        return None

    def published(self, query: str) -> int | None:
        return None

    def state_of(self, found: Object) -> str:
        return "system"
