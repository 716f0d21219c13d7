"""User-defined aggregates and functions, as objects of a catalog."""

from __future__ import annotations

import msgspec


class AggregatePart(msgspec.Struct, frozen=True):
    """A definition of an aggregate: its text, and the number of the statement that created it."""

    number: int
    sql: str
    window: bool = False
    algebraic: bool = False
    python: bool = False


class Aggregate(msgspec.Struct, frozen=True, tag="aggregate", kw_only=True):
    """A user-defined aggregate. Its name ends with `()`, as in `avg()`, because a relation may have the same name.

    A base definition and a WINDOW definition are parts of the same aggregate. The last part of each kind is the current
    one. Earlier parts are kept while a query older than the current one uses the aggregate.
    """

    name: str
    id: str
    sql: str
    parts: tuple[AggregatePart, ...]

    def part(self, *, window: bool, before: int | None = None) -> AggregatePart | None:
        """The last definition of a kind, or the last one older than object number `before`; None if none exists."""
        known = [part for part in self.parts if part.window == window and (before is None or part.number < before)]
        return known[-1] if known else None


class FunctionVersion(msgspec.Struct, frozen=True):
    """A version of a function: its text, and the number of the statement that created it."""

    number: int
    sql: str


class Function(msgspec.Struct, frozen=True, tag="function", kw_only=True):
    """A user-defined scalar function in Python. Its name ends with `()`, like that of an aggregate. Earlier versions
    are kept while a query older than the last version uses the function."""

    name: str
    id: str
    sql: str
    versions: tuple[FunctionVersion, ...]
