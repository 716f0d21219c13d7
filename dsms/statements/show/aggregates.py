"""SHOW AGGREGATES: the aggregates of the catalog and of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.binder.aggregates.defined_aggregates import BUILT_IN, definition_statement, library
from dsms.sql.binder.aggregates.python_aggregates import methods_of
from dsms.sql.binder.dependencies import dependents
from dsms.sql.binder.scalars.python_functions import package_from
from dsms.sql.parser.aggregates import AggregateSyntax, CreatePythonAggregate
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind

_COLUMNS = ("name", "definition", "arguments", "result", "returns", "used by", "sql")


@dataclass(frozen=True, slots=True)
class ShowAggregates(st.Statement):
    """`SHOW AGGREGATES`."""

    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ShowAggregates:
    cursor.end()
    return ShowAggregates(cursor.sql)


def _apply(statement: ShowAggregates, catalog: Catalog, environment: Environment) -> Applied:
    rows = (*_own(catalog, environment.may_read), *_of_library(catalog))
    return catalog, StatementResult("SHOW", f"{len(rows)} found", _COLUMNS, rows)


def _own(catalog: Catalog, may_read: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    """The current definitions in the catalog that the caller may read."""
    for item in (item for item in catalog.aggregates() if may_read(item.name)):
        used = ", ".join(reader.name for reader in dependents(catalog, item) if may_read(reader.name))
        for window in (False, True):
            if (part := item.part(window=window)) is not None:
                yield _row(definition_statement(part.sql), used)


def _of_library(catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """The library's definitions, except those hidden by an aggregate of the catalog and the five of SQL."""
    own = {item.name for item in catalog.aggregates()}
    for (name, _), text in library().items():
        if name not in BUILT_IN and f"{name}()" not in own:
            yield _row(definition_statement(text.sql), "", "library")


def _row(written: AggregateSyntax, used: str, origin: str = "") -> tuple[str, ...]:
    kinds = ["algebraic"] * written.algebraic + ["window" if written.window else "base"]
    arguments = ", ".join(f"{field.name.text} {field.type or 'any'}" for field in written.parameters)
    result = ", ".join(f"{field.name.text} {field.type}".strip() for field in written.result)
    returns = "at the end" if _ends(written) else "for each row"
    language = ["python"] if isinstance(written, CreatePythonAggregate) else []
    shown = " ".join([*([origin] if origin else []), *language, *kinds])
    return f"{written.name.text.lower()}()", shown, arguments, result, returns, used, written.sql


def _ends(written: AggregateSyntax) -> bool:
    if isinstance(written, CreatePythonAggregate):
        package = package_from(written.code, written.name)
        return "terminate" in methods_of(package, written.code.handler, written.name)
    return bool(written.clauses.get("terminate"))


KIND = StatementKind(statement=ShowAggregates, starts={("SHOW", "AGGREGATES"): _parse}, apply=_apply, role="reader")
