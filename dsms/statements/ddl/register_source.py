"""REGISTER SOURCE: declares a source over a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Column, Constraint
from dsms.model.limits import Limits
from dsms.model.objects import DEFAULT_AHEAD_MS, Source
from dsms.model.statement_result import StatementResult
from dsms.model.statements import ColumnDefinition, Name, RegisterSource
from dsms.model.topic_rules import check_dead_letters
from dsms.model.types import type_sql
from dsms.registration.clauses import source_settings
from dsms.registration.constraints import checked_constraints
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.timestamps import type_of
from dsms.sql.parser import declarations
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import UserError
from operators.streams.tagger import TS


def register_source(statement: RegisterSource, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a source over a topic. The topic is created if the statement gives its number of partitions."""
    return registered_source(statement, catalog, environment, {})


def registered_source(
    statement: RegisterSource, catalog: Catalog, environment: Environment, more: Mapping[str, object]
) -> Applied:
    """Adds the source; `more` are fields that no clause sets."""
    settings, defaults = source_settings(statement.clauses)
    columns = declared_columns(statement.columns, statement.name, environment.limits)
    check_free(catalog, statement.name)
    for promise in msgspec.convert(settings.get("constraints", []), tuple[Constraint, ...]):
        if promise.other is not None:
            environment.check_read(promise.other)
    if "late_of" not in more:  # late records are read from the dead letters of the declared stream itself
        environment.topic_rules.check_source(statement.topic.text, catalog, environment.may_read)
    check_dead_letters(statement.name.text, catalog, environment.may_read)
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


def declared_columns(
    definitions: Sequence[ColumnDefinition], of: Name, limits: Limits, before: Sequence[Column] = ()
) -> list[Column]:
    """The columns `before`, and those of the definitions. Raises SqlError for a reserved or repeated name, for an
    unknown type, and for more columns than the limit."""
    columns = list(before)
    limits.check("columns", len(columns) + len(definitions), "there are {} columns", of.place)
    for definition in definitions:
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


KIND = StatementKind(
    statement=RegisterSource,
    starts={("REGISTER", "SOURCE"): declarations.register_source},
    apply=register_source,
    changed_names=changes_named,
    declaration_reads=lambda _: [],
    words=("FROM", "FORMAT", "TOPIC"),
)
