"""Objects that every cluster has: the control tables as streams. Names that begin with `dsms_` are reserved for them.

Their ids and numbers are outside the range that statements assign, so they do not affect other objects.
"""

from __future__ import annotations

import msgspec

from connectors.kafka.client.names import internal_topic
from dsms.introspection.sample_records import COLUMNS
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Source, Stream
from dsms.registration.environment import Environment
from dsms.statements.registry import apply, kind_of_statement, parse
from operators.core.delta import MAX_SOURCES

SYSTEM_NAME_PREFIX = "dsms_"


def is_system(item: Object) -> bool:
    """Whether an object belongs to the system."""
    return isinstance(item, Source | Stream) and item.id.startswith("d")


def with_system_objects(catalog: Catalog, cluster: str, fragments: int) -> Catalog:
    """The catalog with the system's objects added; the same catalog if it has all of them, or if a user's object took
    one of their names before it was reserved.

    >>> sorted(with_system_objects(Catalog(), "main", 1).objects)
    ['dsms_operators', 'dsms_operators_source', 'dsms_queues', 'dsms_queues_source']
    """
    missing = {name: item for name, item in _made(cluster, fragments).items() if catalog.get(name) != item}
    if not missing or any((taken := catalog.get(name)) and not is_system(taken) for name in missing):
        return catalog
    return catalog.with_objects({**missing, **catalog.objects, **missing})


def system_sources(cluster: str) -> list[Source]:
    """The sources among the system's objects."""
    return [item for item in _made(cluster, 1).values() if isinstance(item, Source)]


def _made(cluster: str, fragments: int) -> dict[str, Object]:
    """The objects by name: created by statements like users' objects, then given ids and numbers of their own."""
    catalog = Catalog()
    for purpose, columns in COLUMNS.items():
        topic = internal_topic(cluster, purpose)
        sql = (
            f"CREATE STREAM {SYSTEM_NAME_PREFIX}{purpose} ({columns}) SOURCE '{topic}' "
            "TIMESTAMP LATENT TAGGED NONE IDLE AFTER 2 SECONDS"
        )
        for statement in parse(sql):
            catalog, _ = apply(statement, catalog, Environment(state_of=lambda _: "system"))
    numbered = enumerate(catalog.objects.items(), 1)
    return {name: _placed(item, f"d{number}", fragments) for number, (name, item) in numbered}


def _placed(item: Object, id: str, fragments: int) -> Object:
    """The object with its own id. Sources are numbered downwards from the last number."""
    if isinstance(item, Stream):
        return msgspec.structs.replace(item, id=id, declared=False)
    if not isinstance(item, Source):
        return msgspec.structs.replace(item, id=id)
    number = MAX_SOURCES - 1 - item.number
    return msgspec.structs.replace(item, id=id, number=number, home=str(number % fragments))


def refuse_reserved(statement: st.Statement, catalog: Catalog) -> None:
    """Raises SqlError for a statement that would create, change or drop an object with a reserved name. A user's object
    that had such a name before it was reserved can be dropped."""
    names = kind_of_statement(statement).changed_names(statement)
    for name in (name for name in names if name.text.lower().startswith(SYSTEM_NAME_PREFIX)):
        existing = catalog.get(name.text)
        if existing is None or is_system(existing):
            raise name.place.error(
                f'"{name.text}" is reserved: names that begin with "{SYSTEM_NAME_PREFIX}" belong to the system'
            )
