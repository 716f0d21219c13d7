"""Versions of sources and tables, which have different columns.

The law: no plan of a running query changes. A new version is a source of its own over the same topic. Objects that are
created later, and streams over the source, read the new version; queries that are older than the change read the
version before it (`Source.seen_by`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from dsms.model import properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream, Table, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Environment, shown_to_caller
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.dependencies import dependencies_of, dependents
from dsms.statements.ddl.being_changed import check_settled
from dsms.statements.ddl.renamed_objects import computation
from operators.core.errors import InternalError

#: What to write if the columns of a source cannot change.
ANOTHER = "register another source over the topic, with other columns"


def own_log(item: Object, name: st.Name, catalog: Catalog, environment: Environment) -> Source:
    """The source or log whose columns are those of the object that a statement names. Raises SqlError if its columns
    are not its own, or cannot change."""
    log = _with_own_columns(item, name, catalog, environment)
    sources = catalog.sources()
    other = next((each for each in sources if log.name.lower() == (each.late_of or "").lower()), None)
    other = other or next((each for each in sources if each.name.lower() == (log.late_of or "").lower()), None)
    if other is not None:
        both = f'"{log.name}" and {shown_to_caller(other, environment)}'
        raise name.place.error(f"{both} have the same columns, because one has the late records of the other", ANOTHER)
    if log.format == "csv":
        why = "running queries and new ones would need lines with different fields"
        raise name.place.error(f'source "{log.name}" is FORMAT CSV: {why}', ANOTHER)
    return log


def _with_own_columns(item: Object, name: st.Name, catalog: Catalog, environment: Environment) -> Source:
    match item:
        case Source():
            return item
        case Table(filled_by=None):
            return item.source
        case Table(filled_by=str(filled_by)):
            query = catalog.find(filled_by)
            why = f'table "{item.name}" is filled by {shown_to_caller(query, environment)}'
            first = f"DROP QUERY {query.name}, and " if environment.may_read(query.name) else ""
            raise name.place.error(why, f"{first}INSERT INTO another table")
        case Stream():
            source = catalog.find(item.source)
            assert isinstance(source, Source)
            if not item.declared:
                why = f'stream "{item.name}" has the columns of {shown_to_caller(source, environment)}'
                hint = f"ALTER SOURCE {source.name} …" if environment.may_read(source.name) else "alter that"
                raise name.place.error(why, hint)
            return source
    hint = f"DROP it, and create it again; or create another {kind_of(item)}"
    raise name.place.error(f'the columns of "{item.name}" are those of its SELECT', hint)


def unchanged(item: Object) -> StatementResult:
    """The answer to ALTER if the object has the wanted columns already."""
    return StatementResult("ALTER", f'{kind_of(item)} "{item.name}" is unchanged', name=item.name)


def readers_of(log: Source, name: st.Name, catalog: Catalog, environment: Environment) -> list[Query]:
    """The queries that depend on a source or table. Raises SqlError while one of the objects is being changed."""
    current = catalog.find(log.name)
    users = dependents(catalog, current)
    check_settled([current, *users], name, "altered", environment)
    return [user for user in users if isinstance(user, Query)]


def next_version(log: Source, catalog: Catalog, changes: Mapping[str, object]) -> Source:
    """Another source over the same topic, read from the same offsets, with changed fields."""
    version = msgspec.structs.replace(
        log,
        id=catalog.next_id(),
        number=catalog.next_number(),
        earlier=_read_versions(log, catalog),
        earlier_ids=log.ids,
    )
    return msgspec.structs.replace(version, **changes)


def _read_versions(log: Source, catalog: Catalog) -> Source | None:
    """The versions that queries read, each with those before it. Names are bound by plans as they are written, of which
    the queries may need less."""
    queries = [query for query in catalog.running() if _reads(query, log, catalog)]
    bound = {source.id for query in queries for source in properties.sources(plan_of(query.name, catalog))}
    read = bound.union(*(query.reads for query in catalog.running()))
    earlier: Source | None = None
    for version in log.versions:
        if version.id in read:
            earlier = msgspec.structs.replace(version, earlier=earlier)
    return earlier


def _reads(query: Query, log: Source, catalog: Catalog) -> bool:
    return any(item.name == log.name for item in dependencies_of(query, catalog))


def with_version(catalog: Catalog, version: Source, defaults: Mapping[str, str] = MappingProxyType({})) -> Catalog:
    """The next version of the catalog, in which a source or table has the new version, and so has the stream that was
    declared with it; a table also gets the texts of more defaults, by column. Raises InternalError if the plan of a
    query, or the place of its state, would change."""
    current = catalog.find(version.name)
    log = current.source if isinstance(current, Table) else current
    streams = [stream for stream in catalog.streams() if stream.declared and stream.sql == log.sql]
    changed = {item.name.lower(): _changed(item, version, defaults) for item in (current, *streams)}
    after = catalog.with_objects({**catalog.objects, **changed}, new_ids=1)
    check_unchanged((user for user in dependents(catalog, current) if isinstance(user, Query)), catalog, after)
    return after


def _changed(item: Object, version: Source, defaults: Mapping[str, str]) -> Object:
    match item:
        case Table():
            kept = {name: text for name, text in item.defaults.items() if name in version.schema.names}
            return msgspec.structs.replace(item, source=version, sql=version.sql, defaults={**kept, **defaults})
        case Stream():
            return msgspec.structs.replace(item, sql=version.sql)
    return version


def check_unchanged(queries: Iterable[Query], before: Catalog, after: Catalog) -> None:
    """Raises InternalError if the plan of a query, or the place of its state, would change."""
    for query in queries:
        if computation(query, before) != computation(query, after):
            raise InternalError(f'the plan of "{query.name}" would change')


def listed_columns(names: Sequence[str]) -> str:
    """The columns, for messages.

    >>> listed_columns(["a"]), listed_columns(["a", "b"])
    ('column "a"', 'columns "a", "b"')
    """
    return f"column{'' if len(names) == 1 else 's'} " + ", ".join(f'"{name}"' for name in names)
