"""SHOW SINKS and SHOW CREATE SINK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.instants import time_text
from dsms.model.sink_states import SinkState
from dsms.model.sinks import KeptSink, create_sink_sql
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.cursor import Cursor
from dsms.statements.named_sinks import readable_sinks, sink_named
from dsms.statements.statement_kind import StatementKind

_COLUMNS = ("name", "result", "target", "state", "reason", "position", "written", "comment")


@dataclass(frozen=True, slots=True)
class ShowSinks(st.Statement):
    """`SHOW SINKS`."""

    sql: str


@dataclass(frozen=True, slots=True)
class ShowCreateSink(st.Statement):
    """`SHOW CREATE SINK name`."""

    name: st.Name
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ShowSinks:
    cursor.end()
    return ShowSinks(cursor.sql)


def _parse_create(cursor: Cursor, _: st.Name | None) -> ShowCreateSink:
    return ShowCreateSink(cursor.rest_as_name("sink name"), cursor.sql)


def sink_documents(catalog: Catalog, states: Mapping[str, SinkState]) -> list[dict[str, Any]]:
    """All sinks, with the names of the columns of SHOW SINKS."""
    return [_document(sink, catalog, states) for sink in catalog.sinks.values()]


def _document(sink: KeptSink, catalog: Catalog, states: Mapping[str, SinkState]) -> dict[str, Any]:
    state = states.get(sink.name.lower(), SinkState())
    return {
        "name": sink.name,
        "result": catalog.result_of(sink).name,
        "target": sink.target,
        "state": state.name,
        "reason": state.reason or None,
        "position": state.position,
        "written": None if state.at is None else time_text(int(state.at * 1000)),
        "comment": sink.comment or None,
    }


def _show(statement: ShowSinks, catalog: Catalog, environment: Environment) -> Applied:
    states = environment.sink_states()
    documents = [_document(sink, catalog, states) for sink in readable_sinks(catalog, environment)]
    rows = tuple(tuple(document.values()) for document in documents)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", _COLUMNS, rows)


def _show_create(statement: ShowCreateSink, catalog: Catalog, environment: Environment) -> Applied:
    sink = sink_named(statement.name, catalog, environment)
    row = (sink.name, create_sink_sql(sink, catalog.result_of(sink).name))
    message = f'statement that created sink "{sink.name}"'
    return catalog, StatementResult("SHOW CREATE", message, ("name", "sql"), (row,), name=sink.name)


KINDS = (
    StatementKind(statement=ShowSinks, starts={("SHOW", "SINKS"): _parse}, apply=_show, role="reader"),
    StatementKind(
        statement=ShowCreateSink, starts={("SHOW", "CREATE", "SINK"): _parse_create}, apply=_show_create, role="reader"
    ),
)
