"""What is to be done so that a catalog has the objects of a document."""

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
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser.parse import parse
from operators.core.errors import SqlError, UserError


@dataclass(frozen=True)
class Import:
    """The statements that are to be run, in order, and the names of what is there already."""

    statements: tuple[str, ...]
    made: tuple[str, ...]
    there: tuple[str, ...]


def imported(document: Document, catalog: Catalog) -> Import:
    """What is missing, each object after those that it reads; UserError where a name is that of something else. Nothing
    is done by it, so a document is refused as a whole."""
    texts: dict[str, list[PlanObject]] = {}
    for one in document.objects:
        texts.setdefault(one.statement, []).append(one)
    parsed = {sql: _declaration(sql, objects[0].name) for sql, objects in texts.items()}
    there = {sql for sql, objects in texts.items() if all(_there(one, catalog) for one in objects)}
    missing = [sql for sql in _in_order(parsed, texts) if sql not in there]
    statements = [line for sql in missing for line in _statements(sql, texts[sql])]
    names = {sql: [one.name for one in objects] for sql, objects in texts.items()}
    made = tuple(name for sql in missing for name in names[sql])
    return Import(tuple(statements), made, tuple(name for sql in texts if sql in there for name in names[sql]))


def _there(one: PlanObject, catalog: Catalog) -> bool:
    found = catalog.get(one.name)
    if found is None:
        return any(isinstance(other, Query) and other.sql == one.statement for other in catalog.objects.values())
    if found.sql != one.statement:
        raise UserError(f'there is another "{one.name}" already', hint="drop it first, or take it out of the document")
    return True


def _statements(sql: str, objects: list[PlanObject]) -> Iterator[str]:
    """The statement, and what is said of the query beside it."""
    yield sql
    for one in objects:
        if one.weight != 1.0:
            if not 0.0 < one.weight < float("inf"):
                raise UserError(f'"{one.name}" has the weight {one.weight}', hint="want a positive number")
            yield f'ALTER QUERY "{one.name}" SET (weight = {Decimal(repr(one.weight)):f})'
        if one.paused:
            yield f'PAUSE QUERY "{one.name}"'


def _declaration(sql: str, name: str) -> st.Statement:
    """The statement of an object: one that declares, of no other kind."""
    try:
        found = parse(sql)
    except SqlError as error:
        raise UserError(f'the statement of "{name}" is wrong: {error}') from error
    if len(found) != 1 or _reads(found[0]) is None:
        raise UserError(f'the statement of "{name}" does not declare an object')
    return found[0]


def _in_order(parsed: dict[str, st.Statement], texts: dict[str, list[PlanObject]]) -> list[str]:
    made = {one.name.lower(): sql for sql, objects in texts.items() for one in objects}
    below = {sql: {made[name] for name in _reads(found) or () if name in made} - {sql} for sql, found in parsed.items()}
    try:
        return list(TopologicalSorter(below).static_order())
    except CycleError as error:
        raise UserError("objects of the document read each other in a circle") from error


@singledispatch
def _reads(statement: st.Statement) -> list[str] | None:
    """The names that a declaration reads, in lower case; None: it is none."""
    return None


@_reads.register(st.RegisterSource)
@_reads.register(st.DeclareStream)
@_reads.register(st.CreateTable)
def _(statement: st.RegisterSource | st.DeclareStream | st.CreateTable) -> list[str]:
    return []


@_reads.register
def _(statement: st.CreateStream) -> list[str]:
    return [statement.source.text.lower()]


@_reads.register
def _(statement: st.ContinuousQuery) -> list[str]:
    return [name.lower() for name in names_in(statement.select)]


@_reads.register
def _(statement: st.ReplaceQuery) -> list[str]:
    return [name.lower() for name in names_in(statement.query.select)]
