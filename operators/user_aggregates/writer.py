"""The output of code generation: lines with their locations, and which columns of local tables may be NULL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from operators.user_aggregates.definition import StatementLocation
from operators.user_aggregates.expression_code import Code


@dataclass
class Writer:
    """Lines of code, each with the location of the statement that it was generated for."""

    lines: list[str] = field(default_factory=list)
    places: list[StatementLocation | None] = field(default_factory=list)
    depth: int = 0
    place: StatementLocation | None = None

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.depth + text)
        self.places.append(self.place)

    def insert(self, at: int, depth: int, text: str) -> None:
        """Adds a line before line number `at`."""
        self.lines.insert(at, "    " * depth + text)
        self.places.insert(at, None)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Adds the head of a block; lines written within the context form its body."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1


@dataclass
class Nulls:
    """The columns of local tables that may be NULL; `grown`: a statement has added such a column."""

    columns: set[tuple[str, str]]
    grown: bool = False

    def assign(self, table: str, column: str, code: Code) -> None:
        """Notes that a statement stores a value in a column."""
        if code.nullable and (table, column) not in self.columns:
            self.columns.add((table, column))
            self.grown = True
