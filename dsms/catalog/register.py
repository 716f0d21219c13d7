"""Statements applied to a catalog: pure decisions, with the outside world behind `Facts`."""

from __future__ import annotations

import hashlib
import re
from functools import singledispatch
from typing import Protocol

import msgspec
import pyarrow as pa
import sqlglot

from dsms.catalog.catalog import Catalog
from dsms.catalog.clauses import result_settings, source_settings
from dsms.catalog.objects import Column, Object, Query, Source, Stream, kind_of
from dsms.catalog.result import StatementResult
from dsms.plan import logical
from dsms.plan.explain import explain
from dsms.plan.lane import compile_lane
from dsms.sql import statements as st
from dsms.sql.bind import bind, names_in, plan_of
from dsms.sql.dialect import Dsms
from dsms.sql.types import parse_type, type_sql
from operators.errors import UserError
from operators.tagger import TS

_NESTED_KEY = (pa.types.is_list, pa.types.is_struct)
RESULT_PREFIX = "dsms."


class Facts(Protocol):
    """What registration must know of, and do in, the outside world."""

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition; makes the topic when `partitions` is given; UserError when it is
        missing."""
        ...

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with topic and schemas ready to be written."""
        ...

    def state_of(self, found: Object) -> str:
        """How an object fares, for SHOW."""
        ...


Applied = tuple[Catalog, StatementResult]


@singledispatch
def apply(statement: st.Statement, catalog: Catalog, facts: Facts) -> Applied:
    """The catalog after a statement, and what it answers. Raises SqlError or UserError and changes nothing."""
    raise UserError(f"{type(statement).__name__} is not supported here")


@apply.register
def _(statement: st.RegisterSource, catalog: Catalog, facts: Facts) -> Applied:
    settings, defaults = source_settings(statement.clauses)
    columns = _columns(statement)
    _check_free(catalog, statement.name)
    wanted = settings.pop("partitions", None)
    start = facts.source_topic(statement.name.text, statement.topic.text, wanted if isinstance(wanted, int) else None)
    source = msgspec.convert(
        {
            "type": "source", "name": statement.name.text, "id": catalog.next_id(), "sql": statement.sql,
            "columns": [msgspec.to_builtins(column) for column in columns], "topic": statement.topic.text,
            "partitions": len(start), "start": start, **settings,
        },
        Source,
    )  # fmt: skip
    _check_timestamp(source)
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
    declared = {field.name: field.type for field in source.schema}
    kind = declared.get(source.timestamp or "")
    if kind is not None and not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise UserError(
            f'TIMESTAMP BY "{source.timestamp}" needs an integer, TIMESTAMP or DATE column, not {type_sql(kind)}'
        )


@apply.register
def _(statement: st.CreateStream, catalog: Catalog, facts: Facts) -> Applied:
    source = catalog.find(statement.source.text, statement.source.place)
    if not isinstance(source, Source):
        raise statement.source.place.error(f'"{source.name}" is a {kind_of(source)}, not a source')
    _check_free(catalog, statement.name)
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


@apply.register
def _(statement: st.ContinuousQuery, catalog: Catalog, facts: Facts) -> Applied:
    node = bind(statement.select, catalog)
    name = statement.name.text if statement.name else _generated_name(statement.select)
    if statement.name is None and (known := catalog.get(name)):
        return catalog, StatementResult("SELECT STREAMED", f'query "{known.name}" runs already', name=known.name)
    _check_free(catalog, statement.name or st.Name(name))
    settings = {"topic": RESULT_PREFIX + name, "partitions": logical.tag_of(node).source.partitions}
    given = result_settings(statement.clauses)
    base = {"type": "query", "name": name, "id": catalog.next_id(), "sql": statement.sql, "kind": statement.kind}
    draft = msgspec.convert({**base, "select": statement.select_sql, **settings, **given}, Query)
    _check_topic_free(catalog, draft)
    query = facts.result_topic(draft, node)
    kind = "CREATE STREAMED VIEW" if statement.kind == "view" else "SELECT STREAMED"
    message = f'{statement.kind} "{name}" created; results in topic "{query.topic}"'
    return catalog.with_object(query), StatementResult(
        kind, message, notices=_query_notices(node, query, given), name=name
    )


def _check_topic_free(catalog: Catalog, query: Query) -> None:
    taken: list[Query | Source] = [*catalog.queries(), *catalog.sources()]
    for other in taken:
        if other.topic == query.topic:
            raise UserError(
                f'topic "{query.topic}" belongs to the {kind_of(other)} "{other.name}"', hint="choose another"
            )


def _query_notices(node: logical.Node, query: Query, given: dict[str, object]) -> tuple[str, ...]:
    keys = logical.keys(node)
    notices = [f"key: {', '.join(keys)}" if keys else "no key: a deletion carries the whole row", "output: STREAMED"]
    return (*notices, *([] if "format" in given else [f"FORMAT {query.format.upper()}"]))


def _generated_name(select: sqlglot.exp.Expr) -> str:
    """The same query text gives the same name, so asking twice runs it once."""
    return "query_" + hashlib.sha256(select.sql(dialect=Dsms).lower().encode()).hexdigest()[:8]


def _check_free(catalog: Catalog, name: st.Name) -> None:
    if (taken := catalog.get(name.text)) is not None:
        raise name.place.error(
            f'a {kind_of(taken)} named "{taken.name}" exists already', "drop it first or choose another name"
        )


@apply.register
def _(statement: st.Drop, catalog: Catalog, facts: Facts) -> Applied:
    found = catalog.get(statement.name.text)
    if found is None and statement.if_exists:
        return catalog, StatementResult("DROP", f'{statement.kind} "{statement.name.text}" does not exist')
    found = catalog.find(statement.name.text, statement.name.place)
    if kind_of(found) != statement.kind:
        raise statement.name.place.error(f'"{found.name}" is a {kind_of(found)}, not a {statement.kind}')
    above = dependents(catalog, found)
    if above and not statement.cascade:
        raise statement.name.place.error(
            f'{statement.kind} "{found.name}" is used by {", ".join(above)}',
            "drop these first or add CASCADE",
        )
    names = [found.name, *above]
    return catalog.without(names), StatementResult("DROP", f"dropped {', '.join(names)}", name=found.name)


def dependents(catalog: Catalog, below: Object) -> list[str]:
    """The names of all objects that need an object, directly or not, in order of creation."""
    needed = {below.name.lower()}
    for found in catalog.objects.values():
        if needed & {name.lower() for name in _reads(found)}:
            needed.add(found.name.lower())
    return [found.name for found in catalog.objects.values() if found.name.lower() in needed - {below.name.lower()}]


def _reads(found: Object) -> list[str]:
    if isinstance(found, Stream):
        return [found.source]
    return names_in(sqlglot.parse_one(found.select, read=Dsms)) if isinstance(found, Query) else []


@apply.register
def _(statement: st.Show, catalog: Catalog, facts: Facts) -> Applied:
    shown = [found for found in catalog.objects.values() if kind_of(found) == statement.kind]
    rows = tuple((found.name, _over(found), facts.state_of(found), found.sql) for found in shown)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", ("name", "topic or source", "state", "sql"), rows)


def _over(found: Object) -> str:
    return found.source if isinstance(found, Stream) else found.topic


@apply.register
def _(statement: st.Describe, catalog: Catalog, facts: Facts) -> Applied:
    found = catalog.find(statement.name.text, statement.name.place)
    schema, keys = schema_and_keys(found, catalog)
    rows = tuple((field.name, type_sql(field.type), field.nullable, field.name in keys) for field in schema)
    message = f'{kind_of(found)} "{found.name}": {facts.state_of(found)}'
    return catalog, StatementResult("DESCRIBE", message, ("column", "type", "nullable", "key"), rows, name=found.name)


def schema_and_keys(found: Object, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The visible columns of an object, and its key."""
    if isinstance(found, Source):
        return found.schema, ()
    node = plan_of(found.name, catalog)
    return logical.visible(node), logical.keys(node)


@apply.register
def _(statement: st.Explain, catalog: Catalog, facts: Facts) -> Applied:
    node = bind(statement.select, catalog) if statement.select is not None else _named_plan(statement, catalog)
    text = explain(node, compile_lane("explain", "explain", node))
    return catalog, StatementResult("EXPLAIN", "plan", ("plan",), tuple((line,) for line in text.splitlines()))


def _named_plan(statement: st.Explain, catalog: Catalog) -> logical.Node:
    assert statement.name is not None
    return plan_of(catalog.find(statement.name.text, statement.name.place).name, catalog)
