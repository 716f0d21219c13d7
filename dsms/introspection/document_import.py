"""Plans the import of a plan document: the statements that create the objects that the catalog does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import singledispatch
from graphlib import CycleError, TopologicalSorter

from dsms.introspection.plan_documents import Document, PlanObject
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.registration.statements import parse
from dsms.sql.binder.dependencies import calls_in, calls_in_body, names_in
from dsms.sql.parser.aggregates import AggregateSyntax, CreateAggregate, CreatePythonAggregate
from operators.core.errors import SqlError, UserError
from operators.core.quoting import quoted_identifier


@dataclass(frozen=True)
class Import:
    """The statements to run, in order, the names of the objects that they create, and those that exist already."""

    statements: tuple[str, ...]
    created: tuple[str, ...]
    existing: tuple[str, ...]


def planned_import(document: Document, catalog: Catalog) -> Import:
    """Plans the import of a document: statements that create its missing objects, each after the objects that it reads.
    Raises UserError if a name belongs to another object. No statement runs here, so a document is refused before any of
    its statements runs.
    """
    texts: dict[str, list[PlanObject]] = {}
    for entry in document.objects:
        texts.setdefault(entry.statement, []).append(entry)
    parsed = {sql: _declaration(sql, objects[0].name) for sql, objects in texts.items()}
    existing = {sql for sql, objects in texts.items() if all(_exists(entry, catalog) for entry in objects)}
    missing = [sql for sql in _in_order(parsed, texts) if sql not in existing]
    statements = [line for sql in missing for line in _statements(sql, texts[sql])]
    names = {sql: [entry.name for entry in objects] for sql, objects in texts.items()}
    created = tuple(name for sql in missing for name in names[sql])
    return Import(tuple(statements), created, tuple(name for sql in texts if sql in existing for name in names[sql]))


def _exists(entry: PlanObject, catalog: Catalog) -> bool:
    existing = catalog.get(entry.name)
    if existing is None:
        return any(isinstance(other, Query) and other.sql == entry.statement for other in catalog.objects.values())
    if existing.sql != entry.statement:
        raise UserError(
            f'another object is named "{entry.name}" already', hint="drop it first, or remove it from the document"
        )
    return True


def _statements(sql: str, objects: list[PlanObject]) -> Iterator[str]:
    """The statement, and those that set the weight and pause of its queries."""
    yield sql
    for entry in objects:
        if entry.weight != 1.0:
            if not 0.0 < entry.weight < float("inf"):
                raise UserError(f'"{entry.name}" has the weight {entry.weight}', hint="a weight is a positive number")
            yield f"ALTER QUERY {quoted_identifier(entry.name)} SET (weight = {Decimal(repr(entry.weight)):f})"
        if entry.paused:
            yield f"PAUSE QUERY {quoted_identifier(entry.name)}"


def _declaration(sql: str, name: str) -> st.Statement:
    """The parsed statement of an object. Raises UserError unless it is a single declaration."""
    try:
        statements = parse(sql)
    except SqlError as error:
        raise UserError(f'the statement of "{name}" is invalid: {error}') from error
    several = len(statements) != 1 and not all(isinstance(part, AggregateSyntax) for part in statements)
    if several or not statements or _reads(statements[0]) is None:
        raise UserError(f'the statement of "{name}" does not declare an object')
    return statements[0]


def _in_order(parsed: dict[str, st.Statement], texts: dict[str, list[PlanObject]]) -> list[str]:
    created = {entry.name.lower(): sql for sql, objects in texts.items() for entry in objects}
    dependencies = {
        sql: {created[name] for name in _reads(statement) or () if name in created} - {sql}
        for sql, statement in parsed.items()
    }
    try:
        return list(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        raise UserError("the objects of the document read each other in a cycle") from error


@singledispatch
def _reads(statement: st.Statement) -> list[str] | None:
    """The names that a declaration reads, in lower case; None if the statement is not a declaration."""
    return None


@_reads.register(st.RegisterSource)
@_reads.register(st.DeclareStream)
@_reads.register(st.CreateTable)
@_reads.register(CreatePythonAggregate)
def _(statement: st.RegisterSource | st.DeclareStream | st.CreateTable | CreatePythonAggregate) -> list[str]:
    return []


@_reads.register
def _(statement: CreateAggregate) -> list[str]:
    """The aggregates that the body calls must exist first."""
    return calls_in_body(statement.sql)


@_reads.register
def _(statement: st.CreateStream) -> list[str]:
    return [statement.source.text.lower()]


@_reads.register
def _(statement: st.ContinuousQuery) -> list[str]:
    return [name.lower() for name in (*names_in(statement.select), *calls_in(statement.select))]


@_reads.register
def _(statement: st.ReplaceQuery) -> list[str]:
    return [name.lower() for name in (*names_in(statement.query.select), *calls_in(statement.query.select))]


@_reads.register
def _(statement: st.IfNotExists) -> list[str] | None:
    return _reads(statement.statement)
