"""Looks up user-defined aggregates by name, first in the catalog, then in the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from dsms.model.catalog import Catalog
from dsms.model.user_defined import Aggregate, AggregatePart
from dsms.sql.aggregate_library import TEXTS
from dsms.sql.binder.aggregates.aggregate_bodies import bind_aggregate
from dsms.sql.binder.aggregates.python_aggregates import bind_python_aggregate
from dsms.sql.parser import aggregates as syntax
from dsms.sql.parser.parse import parse
from operators.core.errors import InternalError
from operators.user_aggregates.definition import Definition

#: The library's aggregates that are also built-in functions of GROUP BY.
BUILT_IN: Final = frozenset({"sum", "count", "avg", "min", "max"})


@dataclass(frozen=True)
class DefinitionText:
    """A definition as text, with the definitions that its body may call: those older than the definition."""

    sql: str
    older: tuple[tuple[str, DefinitionText], ...] = ()


@lru_cache(maxsize=1024)
def definition_statement(sql: str) -> syntax.AggregateSyntax:
    """The statement of a definition."""
    (statement,) = parse(sql, syntax.STARTS)
    assert isinstance(statement, syntax.CreateAggregate | syntax.CreatePythonAggregate)
    return statement


@lru_cache(maxsize=1)
def library() -> Mapping[tuple[str, bool], DefinitionText]:
    """The library's definitions, by name and whether they are for windows."""
    found: dict[tuple[str, bool], DefinitionText] = {}
    for script in TEXTS:
        for statement in parse(script, syntax.STARTS):
            assert isinstance(statement, syntax.CreateAggregate)
            older = tuple((name, text) for (name, window), text in found.items() if not window and name not in BUILT_IN)
            found[statement.name.text.lower(), statement.window] = DefinitionText(statement.sql, older)
    return found


def text_of(catalog: Catalog, name: str, *, window: bool, before: int | None = None) -> DefinitionText | None:
    """The definition that a name refers to; None if no such definition exists. `before` is the number of the query that
    calls it, which sees only older definitions; None for a new query."""
    item = catalog.get(f"{name}()")
    part = item.part(window=window, before=before) if isinstance(item, Aggregate) else None
    if part is not None:
        return DefinitionText(part.sql, () if part.python else _older(catalog, part))
    # the library does not supply the window definition of an aggregate whose base definition is in the catalog
    own = isinstance(item, Aggregate) and item.part(window=not window, before=before) is not None
    return None if own and window else library().get((name, window))


def _older(catalog: Catalog, part: AggregatePart) -> tuple[tuple[str, DefinitionText], ...]:
    """The base definitions that the body of a definition may call: those made before it."""
    found = []
    for item in catalog.aggregates():
        name = item.name.removesuffix("()").lower()
        older = item.part(window=False, before=part.number)
        if older is not None:
            found.append((name, DefinitionText(older.sql, _older(catalog, older))))
    return tuple(found)


def definition_of(text: DefinitionText, types: tuple[pa.DataType, ...] | None) -> Definition:
    """The definition for arguments of these types; None means the declared types. Raises SqlError."""
    return _definition(text, types)


@lru_cache(maxsize=1024)
def _definition(text: DefinitionText, types: tuple[pa.DataType, ...] | None) -> Definition:
    older = dict(text.older)

    def resolve(name: str, wanted: tuple[pa.DataType, ...]) -> Definition | None:
        found = older.get(name)
        if found is None and name not in BUILT_IN:
            found = library().get((name, False))
        if found is None:
            return None
        return definition_of(found, wanted or _placeholder_types(found))

    statement = definition_statement(text.sql)
    if isinstance(statement, syntax.CreatePythonAggregate):
        return bind_python_aggregate(statement, types)
    return bind_aggregate(statement, types, resolve)


def _placeholder_types(text: DefinitionText) -> tuple[pa.DataType, ...] | None:
    """Placeholder types of arguments, for a lookup by name alone."""
    parameters = definition_statement(text.sql).parameters
    return tuple(pa.int64() for _ in parameters) if any(p.type is None for p in parameters) else None


@dataclass(frozen=True)
class AggregateLookup:
    """Finds the definitions of the user-defined aggregates that a query may call: those older than the query, whose
    number is `before` (None for a query that is being created)."""

    catalog: Catalog
    before: int | None = None

    def __deepcopy__(self, memo: object) -> AggregateLookup:
        return self

    def has(self, name: str) -> bool:
        """Whether the name is that of a user-defined aggregate, which hides or extends the built-in functions."""
        if self._is_in_catalog(name):
            return True
        return name not in BUILT_IN and ((name, False) in library() or (name, True) in library())

    def _is_in_catalog(self, name: str) -> bool:
        item = self.catalog.get(f"{name}()")
        if not isinstance(item, Aggregate):
            return False
        return any(item.part(window=window, before=self.before) is not None for window in (False, True))

    def base(self, name: str, types: tuple[pa.DataType, ...]) -> Definition | None:
        """The base definition for arguments of these types; None if there is none."""
        return self._definition_of_kind(name, types, window=False)

    def window(self, name: str, types: tuple[pa.DataType, ...]) -> Definition | None:
        """The window definition for arguments of these types; None if there is none."""
        return self._definition_of_kind(name, types, window=True)

    def _definition_of_kind(self, name: str, types: tuple[pa.DataType, ...], *, window: bool) -> Definition | None:
        text = text_of(self.catalog, name, window=window, before=self.before)
        if text is None:
            return None
        bound = definition_of(text, types)
        if bound.window != window:
            raise InternalError(f'the definition found for "{name}" is not of the requested kind (base or window)')
        return bound
