"""Plans the import of a plan document: the statements that create the objects that the catalog does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter

from dsms.introspection.plan_documents import Document, PlanObject
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.sql.parser.aggregates import AggregateSyntax
from dsms.statements.registry import kind_of_statement, parse, resolved_statement
from operators.core.errors import SqlError, UserError
from operators.core.quoting import quoted_identifier


@dataclass(frozen=True)
class Import:
    """The statements to run, in order, the names of the objects that they create, and those that exist already.
    `notices` say which of the created objects get other columns than they were exported with."""

    statements: tuple[str, ...]
    created: tuple[str, ...]
    existing: tuple[str, ...]
    notices: tuple[str, ...] = ()


def planned_import(document: Document, catalog: Catalog) -> Import:
    """Plans the import of a document: statements that create its missing objects, each after the objects that it reads.
    Raises UserError if a name belongs to another object. No statement runs here, so a document is refused before any of
    its statements runs.
    """
    texts: dict[str, list[PlanObject]] = {}
    for entry in document.objects:
        texts.setdefault(entry.statement, []).append(entry)
    parsed = {sql: _declaration(sql, objects[0].name) for sql, objects in texts.items()}
    for sql, objects in texts.items():
        _check_names(parsed[sql], objects)
    existing = {sql for sql, objects in texts.items() if all(_exists(entry, catalog) for entry in objects)}
    missing = [sql for sql in _in_order(parsed, texts) if sql not in existing]
    statements = [line for sql in missing for line in _statements(sql, texts[sql])]
    names = {sql: [entry.name for entry in objects] for sql, objects in texts.items()}
    created = tuple(name for sql in missing for name in names[sql])
    there = tuple(name for sql in texts if sql in existing for name in names[sql])
    notices = tuple(notice for sql in missing for entry in texts[sql] for notice in _notices(entry))
    return Import(tuple(statements), created, there, notices)


def _notices(entry: PlanObject) -> Iterator[str]:
    """Notices that a created object reads the current columns, while the exported one did not."""
    return (
        f'{entry.kind} "{entry.name}" reads the current columns; where it was exported it {notice.partition(";")[0]}'
        for notice in entry.notices
    )


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


def _check_names(statement: st.Statement, objects: list[PlanObject]) -> None:
    """Raises UserError unless the name that a statement declares is one of those that the document has for it. Names of
    aggregates end with "()" there."""
    declaration = resolved_statement(statement, Catalog())
    names = {entry.name.lower().removesuffix("()") for entry in objects}
    for declared in kind_of_statement(declaration).changed_names(declaration):
        if declared.text.lower() not in names:
            raise UserError(
                f'the statement of "{objects[0].name}" creates "{declared.text}"',
                hint="write the same name in the object and in its statement",
            )


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


def _reads(statement: st.Statement) -> list[str] | None:
    """The names that a declaration reads, in lower case; None if the statement is not a declaration. With IF NOT EXISTS
    it reads what its CREATE reads, which is the statement for an empty catalog."""
    declaration = resolved_statement(statement, Catalog())
    return kind_of_statement(declaration).declaration_reads(declaration)
