"""CREATE SINK, ALTER SINK … RESTART and DROP SINK: results that the cluster keeps in other systems."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

import msgspec
from sqlglot.tokenizer_core import TokenType

from connectors.tables.sink import SinkResult
from connectors.tables.sink_targets import ICEBERG, NAMESPACE, check_options, is_lake
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Table, kind_of
from dsms.model.sinks import KeptSink
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_name
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import schema_and_keys
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.sql.parser.queries import options
from dsms.statements.named_sinks import sink_named
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import UserError

_INTO = "INTO '/directory' (docs/sinks.md); for Kafka nothing, because each result has a topic with its changes"
_OPTIONS, _MOST_S = ("TABLE", "EVERY", "CHANGES"), 86_400.0


@dataclass(frozen=True, slots=True)
class CreateSink(st.Statement):
    """`CREATE SINK [IF NOT EXISTS] name FROM result INTO 'target' [WITH (table = …, every = …, changes = true)]`."""

    name: st.Name
    if_not_exists: bool
    result: st.Name
    target: str
    target_place: st.TextLocation
    clauses: tuple[st.Clause, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class RestartSink(st.Statement):
    """`ALTER SINK name RESTART`."""

    name: st.Name
    sql: str


@dataclass(frozen=True, slots=True)
class DropSink(st.Statement):
    """`DROP SINK [IF EXISTS] name`."""

    name: st.Name
    if_exists: bool
    sql: str


def _parse_create(cursor: Cursor, _: st.Name | None) -> CreateSink:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("sink name")
    cursor.expect("FROM")
    result = cursor.object_name("name")
    if not cursor.accept("INTO"):
        cursor.fail("expected INTO and a target", _INTO)
    if not cursor.more() or cursor.peek().token_type is not TokenType.STRING:
        cursor.fail("expected a target in quotes", _INTO)
    place = place_of(target := cursor.next())
    clauses = options(cursor, _OPTIONS) if cursor.accept("WITH") else ()
    cursor.end()
    return CreateSink(name, if_not_exists, result, target.text, place, clauses, cursor.sql)


def _parse_alter(cursor: Cursor, _: st.Name | None) -> RestartSink:
    name = cursor.name("sink name")
    if not cursor.accept("RESTART"):
        cursor.fail("only RESTART is supported after ALTER SINK", "for other options DROP the sink and create it again")
    cursor.end()
    return RestartSink(name, cursor.sql)


def _parse_drop(cursor: Cursor, _: st.Name | None) -> DropSink:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("sink name")
    cursor.end()
    return DropSink(name, if_exists, cursor.sql)


def _create(statement: CreateSink, catalog: Catalog, environment: Environment) -> Applied:
    check_name(statement.name)
    if statement.name.text.lower() in catalog.sinks:
        if statement.if_not_exists:
            message = f'sink "{statement.name.text}" already exists; nothing was done'
            return catalog, StatementResult("CREATE SINK", message, name=statement.name.text)
        raise statement.name.place.error(
            f'a sink named "{statement.name.text}" already exists', "drop it first or choose another name"
        )
    environment.check_read(statement.result.text)
    item = catalog.find(statement.result.text, statement.result.place)
    sink = _with_options(statement, item, catalog.version + 1)
    try:
        environment.check_sink_target(sink.target)
        check_options(sink.target, sink.table, changes=sink.changes)
    except UserError as error:
        raise statement.target_place.error(error.message, error.hint) from error
    _check_result(statement.result, item, catalog)
    _check_alone(statement, sink, catalog)
    message = f'sink "{sink.name}" created: it keeps {kind_of(item)} "{item.name}" in {sink.target}'
    return catalog.with_sink(sink), StatementResult("CREATE SINK", message, name=sink.name)


def _with_options(statement: CreateSink, item: Object, created: int) -> KeptSink:
    """The sink with its options; `created` is the first version of the catalog with it. Raises SqlError for an option
    that has an invalid value."""
    given: dict[str, st.Clause] = {}
    for clause in statement.clauses:
        if clause.name in given:
            raise clause.place.error(f"option {clause.name.upper()} is given twice")
        given[clause.name] = clause
    return KeptSink(
        name=statement.name.text,
        result=item.name.lower(),
        target=statement.target,
        known_as=item.name,
        table=given["table"].words[0] if "table" in given else None,
        every=_seconds(given["every"]) if "every" in given else None,
        changes="changes" in given and _truth(given["changes"]),
        created=created,
    )


def _seconds(clause: st.Clause) -> float:
    try:
        seconds = float(" ".join(clause.words))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MOST_S:
        raise clause.place.error("EVERY is a number of seconds, from 0 to a day", "every = 60")
    return seconds


def _truth(clause: st.Clause) -> bool:
    word = clause.words[0].lower()
    if word not in ("true", "false"):
        raise clause.place.error("CHANGES is true or false", "changes = true")
    return word == "true"


def _check_result(name: st.Name, item: Object, catalog: Catalog) -> None:
    """Raises SqlError for an object that has no changes to follow, or whose columns a target cannot have."""
    if not isinstance(item, Query | Table) or (isinstance(item, Query) and item.periodic is not None):
        what = "a view over the clock" if isinstance(item, Query) else f"a {kind_of(item)}"
        raise name.place.error(f'"{item.name}" is {what}', "a sink keeps a view, a query or a table")
    schema, keys = schema_and_keys(item, catalog)
    try:
        SinkResult(item.name, schema, keys)
    except UserError as error:
        raise name.place.error(error.message, error.hint) from error


def _check_alone(statement: CreateSink, sink: KeptSink, catalog: Catalog) -> None:
    """Raises SqlError if another sink writes to the same target."""
    for other in catalog.sinks.values():
        if _place(other) == _place(sink):
            raise statement.target_place.error(
                f'sink "{other.name}" writes to this target', "choose another target, or another table in it"
            )


def _place(sink: KeptSink) -> tuple[str, str]:
    """The target, and the table in it, if it has several: no two sinks write to the same one.

    >>> _place(KeptSink(name="s", result="hot", target="iceberg:/lake/", known_as="hot"))
    ('iceberg:/lake', 'dsms.hot')
    >>> _place(KeptSink(name="s", result="hot", target="delta:/lake/./a//b", known_as="hot"))
    ('delta:/lake/a/b', '')
    """
    target, table = _as_usual(sink.target), sink.table or sink.known_as
    if target.startswith(ICEBERG):
        return target, table if "." in table else f"{NAMESPACE}.{table}"
    return target, table if "://" in target and not is_lake(target) else ""


def _as_usual(target: str) -> str:
    """The usual spelling of a target in a directory; other targets stay as they are, but without a slash at the end."""
    scheme, slash, path = target.partition("/")
    if "://" in target or not slash:
        return target.rstrip("/")
    return scheme + posixpath.normpath(slash + path.lstrip("/"))


def _restart(statement: RestartSink, catalog: Catalog, environment: Environment) -> Applied:
    sink = sink_named(statement.name, catalog, environment)
    after = catalog.with_sink(msgspec.structs.replace(sink, restarts=sink.restarts + 1))
    message = f'sink "{sink.name}" empties its target and writes all changes again'
    return after, StatementResult("ALTER SINK", message, name=sink.name)


def _drop(statement: DropSink, catalog: Catalog, environment: Environment) -> Applied:
    if statement.if_exists and statement.name.text.lower() not in catalog.sinks:
        return catalog, StatementResult("DROP SINK", f'sink "{statement.name.text}" does not exist')
    sink = sink_named(statement.name, catalog, environment)
    message = f"dropped sink {sink.name}; what it has written stays"
    return catalog.without_sinks([sink]), StatementResult("DROP SINK", message, name=sink.name)


# The coordinator writes with its own rights, so an administrator is needed.
KINDS = (
    StatementKind(
        statement=CreateSink,
        starts={("CREATE", "SINK"): _parse_create},
        apply=_create,
        changed_names=changes_named,
        read_name=lambda statement: statement.result,
        role="administrator",
        words=("IF", "NOT", "EXISTS", "FROM", "INTO", "WITH", *_OPTIONS),
    ),
    StatementKind(
        statement=RestartSink,
        starts={("ALTER", "SINK"): _parse_alter},
        apply=_restart,
        changed_names=changes_named,
        role="administrator",
        words=("RESTART",),
    ),
    StatementKind(
        statement=DropSink,
        starts={("DROP", "SINK"): _parse_drop},
        apply=_drop,
        changed_names=changes_named,
        role="administrator",
        words=("IF", "EXISTS"),
    ),
)
