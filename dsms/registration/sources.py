"""REGISTER SOURCE and CREATE STREAM applied to a catalog."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from connectors.kafka.client.names import dead_letter_topic
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.objects import DEFAULT_AHEAD_MS, Column, Constraint, Source, Stream, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_topic
from dsms.model.types import type_sql
from dsms.registration.clauses import source_settings
from dsms.registration.constraints import checked_constraints
from dsms.registration.environment import Applied, Environment, FixedEnvironment, check_free
from dsms.registration.timestamps import timestamps, type_of
from operators.core.errors import UserError
from operators.streams.tagger import TS

_NESTED_KEY = (pa.types.is_list, pa.types.is_struct)


def register_source(statement: st.RegisterSource, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a source over a topic. The topic is created if the statement gives its number of partitions."""
    return _registered(statement, catalog, environment, {})


def _registered(
    statement: st.RegisterSource, catalog: Catalog, environment: Environment, more: Mapping[str, object]
) -> Applied:
    """Adds the source; `more` are fields that no clause sets."""
    settings, defaults = source_settings(statement.clauses)
    columns = _columns(statement, environment.limits)
    check_free(catalog, statement.name)
    for promise in msgspec.convert(settings.get("constraints", []), tuple[Constraint, ...]):
        if promise.other is not None:
            environment.check_read(promise.other)
    if "late_of" not in more:  # late records are read from the dead letters of the declared stream itself
        environment.topic_rules.check_source(statement.topic.text, catalog, environment.may_read)
    check_topic(dead_letter_topic(statement.name.text))
    given = settings.pop("partitions", None)
    wanted = given if isinstance(given, int) else None
    environment.limits.check("partitions", wanted or 1, "the topic would have {} partitions", statement.name.place)
    number = catalog.next_number()
    source = msgspec.convert(
        {
            "type": "source",
            "name": statement.name.text,
            "id": catalog.next_id(),
            "sql": statement.sql,
            "columns": [msgspec.to_builtins(column) for column in columns],
            "topic": statement.topic.text,
            "number": number,
            "home": str(number % len(environment.utilization())),
            "ahead_ms": DEFAULT_AHEAD_MS,
            **settings,
            **more,
        },
        Source,
    )
    _check_timestamp(source)
    promises = checked_constraints(source, catalog, environment.may_read)
    start = environment.source_topic(source.name, source.topic, wanted)  # after all checks: it may create the topic
    topic_id = environment.topic_id(source.topic)
    warnings = environment.topic_warnings(source.topic) if source.late_of is None else ()
    source = msgspec.structs.replace(
        source, constraints=promises, start=start, partitions=len(start), topic_id=topic_id
    )
    result = StatementResult(
        "REGISTER SOURCE",
        f'source "{source.name}" registered over topic "{source.topic}"',
        notices=(*defaults, *warnings),
        name=source.name,
    )
    return catalog.with_object(source), result


def _columns(statement: st.RegisterSource, limits: Limits) -> list[Column]:
    columns: list[Column] = []
    limits.check("columns", len(statement.columns), "there are {} columns", statement.name.place)
    for definition in statement.columns:
        name = definition.name
        if name.text.upper() == TS or name.text.startswith("__"):
            raise name.place.error(f'column name "{name.text}" is reserved')
        if any(name.text.lower() == other.name.lower() for other in columns):
            raise name.place.error(f'two columns are named "{name.text}"')
        columns.append(Column(name.text, type_sql(type_of(definition)), definition.nullable))
    return columns


def _check_timestamp(source: Source) -> None:
    declared = {field.name: field.type for field in source.record}
    kind = declared.get(source.timestamp or "")
    if kind is not None and not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise UserError(
            f'TIMESTAMP BY "{source.timestamp}" needs an integer, TIMESTAMP or DATE column, not {type_sql(kind)}'
        )


def create_stream(statement: st.CreateStream, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a stream over a source, keyed or append-only."""
    environment.check_read(statement.source.text)
    source = catalog.find(statement.source.text, statement.source.place)
    if not isinstance(source, Source):
        raise statement.source.place.error(f'"{source.name}" is a {kind_of(source)}, not a source')
    check_free(catalog, statement.name)
    keys = tuple(_key(name, source) for name in statement.keys)
    for number, name in enumerate(statement.keys):
        if keys[number] in keys[:number]:
            raise name.place.error(f'key column "{keys[number]}" is listed twice')
    stream = Stream(name=statement.name.text, id=catalog.next_id(), sql=statement.sql, source=source.name, keys=keys)
    form = f"keyed by {', '.join(keys)}" if keys else "append-only"
    return catalog.with_object(stream), StatementResult(
        "CREATE STREAM", f'stream "{stream.name}" created, {form}', name=stream.name
    )


def _key(name: st.Name, source: Source) -> str:
    for field in source.schema:
        if field.name.lower() == name.text.lower():
            if any(nested(field.type) for nested in _NESTED_KEY):
                raise name.place.error(
                    f'key column "{field.name}" has the type {type_sql(field.type)}, which cannot be a key'
                )
            return str(field.name)
    raise name.place.error(
        f'column "{name.text}" not found in source "{source.name}"',
        "have: " + ", ".join(source.schema.names),
    )


def declare_stream(statement: st.DeclareStream, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a source named `<stream>_source` and the append-only stream over it; with LATE INTO, also a source and a
    stream of the late records."""
    check_free(catalog, statement.name)
    stamps = timestamps(statement)
    clauses = (*statement.clauses, *stamps.clauses)
    source_name = st.Name(f"{statement.name.text}_source", statement.name.place)
    source = st.RegisterSource(source_name, stamps.columns, statement.topic, clauses, statement.sql)
    after, registered = _registered(source, catalog, environment, stamps.settings)
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
    after, created = create_stream(st.CreateStream(name, source, (), sql), catalog, FixedEnvironment())
    stream = after.find(name.text)
    assert isinstance(stream, Stream)
    return catalog.with_object(msgspec.structs.replace(stream, declared=True)), created


def _late_stream(
    statement: st.DeclareStream, source: st.RegisterSource, catalog: Catalog, environment: Environment
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
    after, _ = _registered(late, catalog, environment, {"tagged": "none", "late_of": source.name.text})
    return _declared_over(statement.late, late_source, statement.sql, after)[0]
