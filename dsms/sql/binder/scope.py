"""Scopes: the columns that an expression can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from operators.core.errors import InternalError, UserError
from operators.core.nearest import nearest
from operators.expressions import Column, Expression


@dataclass(frozen=True, slots=True)
class Entry:
    """A column under the name that the user writes (`alias.name`), and its `column` in the output of the plan.

    A `pseudo` column (TS) is not part of `*`; a `qualified` column is found only with its alias, such as the columns of
    each side that USING merges.
    """

    alias: str | None
    name: str
    column: Column
    pseudo: bool = False
    qualified: bool = False

    @property
    def spelling(self) -> str:
        """The name as the user writes it, with the alias if there is one."""
        return self.name if self.alias is None else f"{self.alias}.{self.name}"


class ColumnNotFound(UserError):
    """No column has that name."""


@dataclass(frozen=True, slots=True)
class Outer:
    """The scope of the enclosing query. `bindings` lists the columns of it that the subquery uses: the name of each,
    and the column of the subquery's plan with its values."""

    scope: Scope
    bindings: tuple[tuple[str, Column], ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the subquery's plan that have values of the enclosing query."""
        return tuple(column for _, column in self.bindings)


class OuterColumnMissing(Exception):
    """A subquery uses a column of the enclosing query `outer` that its plan does not contain yet. `bind_inside`
    catches it and binds the subquery again with that column."""

    def __init__(self, outer: Outer, column: Column) -> None:
        super().__init__(column.name)
        self.outer = outer
        self.column = column


Rewrite = Callable[[exp.Expr], Expression | None]


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolves names without regard to case; `fields` are the columns of the plan's output, `entries` their names.

    `computed` has the expressions of nodes whose values are already columns of the plan, by the `id` of the node;
    `rewrite` replaces other nodes, for example by the columns of a grouping. Names that are unknown here are looked up
    in the enclosing query.

    >>> scope = Scope(pa.schema([("bidder", pa.int64())]), "B")
    >>> scope.resolve("BIDDER").name, scope.resolve("bidder", "b").name
    ('bidder', 'bidder')
    >>> scope.resolve("biddr")
    Traceback (most recent call last):
    dsms.sql.binder.scope.ColumnNotFound: column "biddr" not found; have: B.bidder
    """

    fields: pa.Schema
    alias: str | None = None
    entries: tuple[Entry, ...] = ()
    outer: Outer | None = None
    computed: Mapping[int, Expression] = field(default_factory=dict)
    rewrite: Rewrite | None = None

    def __post_init__(self) -> None:
        if not self.entries:
            entries = (Entry(self.alias, f.name, Column(f.name, f.type, f.nullable)) for f in self.fields)
            object.__setattr__(self, "entries", tuple(entries))

    @staticmethod
    def of(entries: tuple[Entry, ...], outer: Outer | None = None) -> Scope:
        """The scope with these entries.

        >>> Scope.of((Entry("a", "x", Column("__0", pa.int32())),)).resolve("x").name
        '__0'
        """
        return Scope(pa.schema([]), None, entries, outer)

    def rewritten(self, node: exp.Expr) -> Expression | None:
        """The value of a node that is already computed; None for every other node."""
        value = self.computed.get(id(node))
        return self.rewrite(node) if value is None and self.rewrite is not None else value

    def resolve(self, name: str, alias: str | None = None) -> Column:
        """The column of a name. Raises UserError with the choices, close matches first, if it is unknown or
        ambiguous."""
        column = self.find(name, alias)
        if column is not None:
            return column
        asked = name if alias is None else f"{alias}.{name}"
        choices = self._choices(asked)
        raise ColumnNotFound(f'column "{asked}" not found', hint=f"have: {choices}" if choices else "")

    def find(self, name: str, alias: str | None = None) -> Column | None:
        """Like `resolve`, but None for an unknown name."""
        matches = self._matches(name, alias)
        if len(matches) > 1:
            spellings = ", ".join(entry.spelling for entry in matches)
            raise UserError(f'column "{name}" is ambiguous', hint=f"use one of: {spellings}")
        return matches[0].column if matches else self._outer_column(name, alias)

    def has(self, name: str, alias: str | None = None) -> bool:
        """Whether the name is one of this query's own columns."""
        return bool(self._matches(name, alias))

    def sees(self, name: str) -> bool:
        """Whether the name is a column of this query or of an enclosing one."""
        return self.has(name) or (self.outer is not None and self.outer.scope.sees(name))

    def _matches(self, name: str, alias: str | None) -> list[Entry]:
        matches = [entry for entry in self.entries if _same(entry.name, name) and _matches_alias(entry, alias)]
        exact = [entry for entry in matches if entry.name == name]
        return exact if len(matches) > 1 and exact else matches

    def _outer_column(self, name: str, alias: str | None) -> Column | None:
        if self.outer is None or (column := self.outer.scope.find(name, alias)) is None:
            return None
        bound = dict(self.outer.bindings).get(column.name)
        if bound is None:
            raise OuterColumnMissing(self.outer, column)
        return bound

    def _all_entries(self) -> tuple[Entry, ...]:
        """The columns of this query, then those of the enclosing ones."""
        return self.entries if self.outer is None else (*self.entries, *self.outer.scope._all_entries())

    def _choices(self, asked: str) -> str:
        entries = self._all_entries()
        spellings = list(dict.fromkeys(entry.spelling for entry in entries))
        folded = {entry.name.casefold(): entry.spelling for entry in reversed(entries)}
        last = asked.rpartition(".")[2].casefold()
        close = [folded[name] for name in nearest(last, folded)]
        return ", ".join([*close, *(spelling for spelling in spellings if spelling not in close)])


def join_scopes(left: Scope, right: Scope) -> Scope:
    """The scope over the columns of both sides; a column of the right whose name is taken becomes `alias.name`.

    >>> fields = pa.schema([("id", pa.int64())])
    >>> both = join_scopes(Scope(fields, "a"), Scope(fields, "b"))
    >>> both.fields.names, both.resolve("id", "b").name
    (['id', 'b.id'], 'b.id')
    """
    renamed = free_names([field.name for field in right.fields], left.fields.names, right.alias)
    fields = [*left.fields, *(field.with_name(renamed[field.name]) for field in right.fields)]
    for entry in right.entries:
        if entry.column.name not in renamed:
            raise InternalError(f'entry "{entry.spelling}" names no field')
    entries = (*left.entries, *(renamed_entry(entry, renamed) for entry in right.entries))
    return Scope(pa.schema(fields), None, entries)


def free_names(names: list[str], taken: list[str], alias: str | None) -> dict[str, str]:
    """Names for columns that are added to `taken` ones: `alias.name` if the name is taken.

    >>> free_names(["k", "v"], ["K"], "b")
    {'k': 'b.k', 'v': 'v'}
    """
    folded = {name.casefold() for name in taken}
    renamed: dict[str, str] = {}
    for name in names:
        free = name if name.casefold() not in folded or alias is None else f"{alias}.{name}"
        while free.casefold() in folded:
            free += "'"
        folded.add(free.casefold())
        renamed[name] = free
    return renamed


def renamed_entry(entry: Entry, names: Mapping[str, str]) -> Entry:
    """The entry after columns of the output got the new names in `names`."""
    column = entry.column
    return replace(entry, column=Column(names.get(column.name, column.name), column.type, column.nullable))


def _matches_alias(entry: Entry, alias: str | None) -> bool:
    return not entry.qualified if alias is None else _same(entry.alias or "", alias)


def _same(left: str, right: str) -> bool:
    return left.casefold() == right.casefold()
