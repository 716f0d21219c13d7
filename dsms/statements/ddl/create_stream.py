"""CREATE STREAM: a stream over a source, or a source together with its append-only stream."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.dead_letters import dead_letter_topic
from dsms.model.objects import Source, Stream, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.statements import CreateStream, DeclareStream
from dsms.model.types import type_sql
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.object_columns import column_named
from dsms.registration.timestamps import declared_timestamps
from dsms.sql.parser import declarations
from dsms.statements.ddl.register_source import registered_source
from dsms.statements.statement_kind import StatementKind, changes_named

_NESTED_KEY = (pa.types.is_list, pa.types.is_struct)


def create_stream(statement: CreateStream, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a stream over a source, keyed or append-only."""
    environment.check_read(statement.source.text)
    source = catalog.find(statement.source.text, statement.source.place)
    if not isinstance(source, Source):
        raise statement.source.place.error(f'"{source.name}" is a {kind_of(source)}, not a source')
    check_free(catalog, statement.name)
    columns = tuple(st.Name(name, statement.source.place) for name in source.schema.names)
    keys = tuple(_key(name, source) for name in (columns if statement.deletions else statement.keys))
    for number, name in enumerate(statement.keys):
        if keys[number] in keys[:number]:
            raise name.place.error(f'key column "{keys[number]}" is listed twice')
    if statement.deletions and source.tagged == "none":
        raise statement.source.place.error(
            f'source "{source.name}" is TAGGED NONE, so it has no deletions', "leave out WITH DELETIONS"
        )
    stream = Stream(
        name=statement.name.text,
        id=catalog.next_id(),
        sql=statement.sql,
        source=source.name,
        keys=keys,
        bag=statement.deletions,
    )
    form = "without a key" if stream.bag else f"keyed by {', '.join(keys)}" if keys else "append-only"
    return catalog.with_object(stream), StatementResult(
        "CREATE STREAM", f'stream "{stream.name}" created, {form}', name=stream.name
    )


def _key(name: st.Name, source: Source) -> str:
    field = source.schema.field(column_named(name, source.schema.names, f'source "{source.name}"'))
    if any(nested(field.type) for nested in _NESTED_KEY):
        raise name.place.error(f'key column "{field.name}" has the type {type_sql(field.type)}, which cannot be a key')
    return str(field.name)


def declare_stream(statement: DeclareStream, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a source named `<stream>_source` and the append-only stream over it; with LATE INTO, also a source and a
    stream of the late records."""
    check_free(catalog, statement.name)
    stamps = declared_timestamps(statement)
    clauses = (*statement.clauses, *stamps.clauses)
    source_name = st.Name(f"{statement.name.text}_source", statement.name.place)
    source = st.RegisterSource(source_name, stamps.columns, statement.topic, clauses, statement.sql)
    after, registered = registered_source(source, catalog, environment, stamps.settings)
    after, created = _declared_over(statement.name, source_name, statement.sql, after)
    opened = (f"SOURCE {statement.function}: read from topic {statement.topic.text}",) if statement.function else ()
    message = f'{created.message} over source "{source_name.text}" of topic "{statement.topic.text}"'
    notices = (*opened, *stamps.notices, *registered.notices)
    if statement.late is not None:
        after = _late_stream(statement, source, after, environment)
        notices = (*notices, f'late records go into the stream "{statement.late.text}"')
    return after, StatementResult("CREATE STREAM", message, notices=notices, name=created.name)


def _declared_over(name: st.Name, source: st.Name, sql: str, catalog: Catalog) -> Applied:
    """Adds the append-only stream of a declaration over its source."""
    after, created = create_stream(CreateStream(name, source, (), sql), catalog, Environment())
    stream = after.find(name.text)
    assert isinstance(stream, Stream)
    return catalog.with_object(msgspec.structs.replace(stream, declared=True)), created


def _late_stream(
    statement: DeclareStream, source: st.RegisterSource, catalog: Catalog, environment: Environment
) -> Catalog:
    """The catalog with the stream of late records, whose log is the dead letter topic of the source. Their instants are
    those of their arrival in that topic, so none of them is late."""
    assert statement.late is not None
    name, place = statement.late.text, statement.late.place
    if any(clause.name == "timestamp" and clause.words == ("LATENT",) for clause in source.clauses):
        raise place.error("LATE INTO needs ORDER BY: with timestamps of arrival no record is late")
    check_free(catalog, statement.late)
    kept = tuple(clause for clause in source.clauses if clause.name in ("format", "registry"))
    latent = st.Clause("timestamp", ("LATENT",), place)
    topic, late_source = st.Name(dead_letter_topic(source.name.text), place), st.Name(f"{name}_source", place)
    late = st.RegisterSource(late_source, source.columns, topic, (*kept, latent), statement.sql)
    after, _ = registered_source(late, catalog, environment, {"tagged": "none", "late_of": source.name.text})
    return _declared_over(statement.late, late_source, statement.sql, after)[0]


KIND = StatementKind(
    statement=CreateStream,
    starts={("CREATE", "STREAM"): declarations.create_stream},
    apply=create_stream,
    changed_names=changes_named,
    declaration_reads=lambda statement: [statement.source.text.lower()],
    words=("OVER", "KEY", "NULL", "DELETIONS"),
)
#: The parser of CREATE STREAM parses this, too.
DECLARING_KIND = StatementKind(
    statement=DeclareStream, apply=declare_stream, changed_names=changes_named, declaration_reads=lambda _: []
)
