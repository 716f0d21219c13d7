"""REGISTER SOURCE and CREATE STREAM applied to a catalog."""

from __future__ import annotations

import re

import msgspec
import pyarrow as pa

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Column, Source, Stream, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.types import parse_type, type_sql
from dsms.registration.clauses import source_settings
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.promises import promised
from operators.core.errors import UserError
from operators.streams.tagger import TS

_NESTED_KEY = (pa.types.is_list, pa.types.is_struct)


def register_source(statement: st.RegisterSource, catalog: Catalog, environment: Environment) -> Applied:
    """A source over a topic, which is created if the statement gives its number of partitions."""
    return _registered(statement, catalog, environment, {})


def _registered(
    statement: st.RegisterSource, catalog: Catalog, environment: Environment, more: dict[str, str]
) -> Applied:
    """The catalog with the source; `more` are fields that no clause sets."""
    settings, defaults = source_settings(statement.clauses)
    columns = _columns(statement)
    check_free(catalog, statement.name)
    wanted = settings.pop("partitions", None)
    start = environment.source_topic(
        statement.name.text, statement.topic.text, wanted if isinstance(wanted, int) else None
    )
    number = catalog.next_number()
    source = msgspec.convert(
        {
            "type": "source",
            "name": statement.name.text,
            "id": catalog.next_id(),
            "sql": statement.sql,
            "columns": [msgspec.to_builtins(column) for column in columns],
            "topic": statement.topic.text,
            "partitions": len(start),
            "start": start,
            "number": number,
            "home": str(number % len(environment.busy())),
            **settings,
            **more,
        },
        Source,
    )
    _check_timestamp(source)
    source = msgspec.structs.replace(source, constraints=promised(source, catalog))
    result = StatementResult(
        "REGISTER SOURCE",
        f'source "{source.name}" registered over topic "{source.topic}"',
        notices=defaults,
        name=source.name,
    )
    return catalog.with_object(source), result


def _columns(statement: st.RegisterSource) -> list[Column]:
    columns: list[Column] = []
    for definition in statement.columns:
        name = definition.name
        if name.text.upper() == TS or name.text.startswith("__"):
            raise name.place.error(f'column name "{name.text}" is reserved')
        if any(name.text.lower() == other.name.lower() for other in columns):
            raise name.place.error(f'two columns are named "{name.text}"')
        columns.append(Column(name.text, type_sql(_type_of(definition)), definition.nullable))
    return columns


def _type_of(definition: st.ColumnDefinition) -> pa.DataType:
    try:
        return parse_type(definition.type)
    except UserError as error:
        message = re.sub(r"^line \d+, column \d+: ", "", error.message)
        raise definition.name.place.error(f'column "{definition.name.text}": {message}', error.hint) from error


def _check_timestamp(source: Source) -> None:
    declared = {field.name: field.type for field in source.record}
    kind = declared.get(source.timestamp or "")
    if kind is not None and not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise UserError(
            f'TIMESTAMP BY "{source.timestamp}" needs an integer, TIMESTAMP or DATE column, not {type_sql(kind)}'
        )


def create_stream(statement: st.CreateStream, catalog: Catalog, environment: Environment) -> Applied:
    """A stream over a source, keyed or append-only."""
    source = catalog.find(statement.source.text, statement.source.place)
    if not isinstance(source, Source):
        raise statement.source.place.error(f'"{source.name}" is a {kind_of(source)}, not a source')
    check_free(catalog, statement.name)
    keys = tuple(_key(name, source) for name in statement.keys)
    for number, name in enumerate(statement.keys):
        if keys[number] in keys[:number]:
            raise name.place.error(f'key column "{keys[number]}" is given twice')
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
    """A source of its own under the name `<stream>_source`, and the append-only stream over it."""
    check_free(catalog, statement.name)
    source_name = st.Name(f"{statement.name.text}_source", statement.name.place)
    timestamp = _timestamp(statement)
    hidden = timestamp if statement.hidden else None
    columns = tuple(column for column in statement.columns if column is not hidden)
    by = [] if timestamp is None else [st.Clause("timestamp", ("BY", timestamp.name.text), timestamp.name.place)]
    source = st.RegisterSource(source_name, columns, statement.topic, (*statement.clauses, *by), statement.sql)
    more = {} if hidden is None else {"timestamp_type": type_sql(_type_of(hidden))}
    with_source, registered = _registered(source, catalog, environment, more)
    over = st.CreateStream(statement.name, source_name, (), statement.sql)
    with_stream, created = create_stream(over, with_source, environment)
    opened = (f"SOURCE {statement.function}: read from topic {statement.topic.text}",) if statement.function else ()
    message = f'{created.message} over source "{source_name.text}" of topic "{statement.topic.text}"'
    return with_stream, StatementResult(
        "CREATE STREAM", message, notices=(*opened, *registered.notices), name=created.name
    )


def _timestamp(statement: st.DeclareStream) -> st.ColumnDefinition | None:
    """The timestamp column, which ORDERED BY or ORDER BY names."""
    ordered = statement.ordered
    if ordered is None:
        return None
    for column in statement.columns:
        if column.name.text.lower() == ordered.text.lower():
            return column
    have = ", ".join(column.name.text for column in statement.columns)
    raise ordered.place.error(f'column "{ordered.text}" not found in "{statement.name.text}"', f"have: {have}")
