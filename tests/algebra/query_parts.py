"""The parts of drawn queries: typed columns, relations in two dialects, and the state of drawing one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
#: A "float" is a small multiple of 1/4, whose sums are exact in any order; a "real" is any double, "dec" a DECIMAL,
#: "time" a TIMESTAMP.
Kind = Literal["int", "str", "float", "real", "bool", "list", "dec", "date", "time"]
#: The placeholder of the instant in DuckDB's text.
NOW = "@T"


@dataclass(frozen=True)
class Column:
    """A column and the kind of its values. Values that are not `exact` may differ in their last digits."""

    name: str
    kind: Kind
    exact: bool = True


@dataclass(frozen=True)
class Relation:
    """An item of FROM without its alias: in our dialect, and for DuckDB as a query over the inputs at an instant.

    `stream`: rows are only inserted; the column `TS`, if any, is the instant of the insertion.
    """

    ours: str
    duck: str
    columns: tuple[Column, ...]
    stream: bool = False

    @property
    def is_query(self) -> bool:
        """Whether it is a query in parentheses."""
        return self.ours.startswith("(") and self.ours.endswith(")")

    def of(self, *kinds: Kind) -> list[Column]:
        """The columns of the given kinds."""
        return [column for column in self.columns if column.kind in kinds and column.exact]


@dataclass(frozen=True)
class Kept:
    """A view whose rows have TS, the instant of their last change: for DuckDB a table, computed at every instant.

    `keys` are columns that are unique at every instant; without any, rows are only inserted. `output` is the
    relation-to-stream operator of its query.
    """

    name: str
    duck: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    output: str = "streamed"


@dataclass
class Drawing:
    """The state of drawing one query: `draw`, the leaves that it may read, and the views that it needs.

    With `clock` = (period, residue) every leaf is read at the points of that clock.
    """

    draw: st.DrawFn
    leaves: Sequence[Relation]
    clock: tuple[int, int] | None = None
    views: list[tuple[str, Relation]] = field(default_factory=list)
    #: Derived streams, which `CREATE STREAM … AS` makes, by name.
    streams: list[tuple[str, str]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    clocks: set[tuple[int, int]] = field(default_factory=set)
    #: Names of the required features that the query does not have yet.
    due: set[str] = field(default_factory=set)
    _names: int = 0

    def name(self, prefix: str) -> str:
        """A new name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def number(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self.draw(_integers(low, high))

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices; the simpler ones come first, since cases are reduced towards them."""
        return choices[self.number(0, len(choices) - 1)] if len(choices) > 1 else choices[0]

    def chance(self, percent: int = 50) -> bool:
        """True in `percent` of 100 cases."""
        return self.number(0, 99) >= 100 - percent

    def some(self, choices: Sequence[T], least: int = 0, most: int = 3) -> list[T]:
        """Some of the choices, without repetitions, in their order."""
        count = self.number(min(least, len(choices)), min(most, len(choices)))
        picked: set[int] = set()
        for _ in range(count):
            picked.add(self.pick([at for at in range(len(choices)) if at not in picked]))
        return [choices[at] for at in sorted(picked)]


_INTEGERS: dict[tuple[int, int], st.SearchStrategy[int]] = {}


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return _INTEGERS.setdefault((low, high), st.integers(low, high))


def select(
    outputs: Sequence[tuple[str, str]], tables: tuple[str, str], tail: tuple[str, str], head: str = "SELECT"
) -> tuple[str, str]:
    """`SELECT outputs FROM tables tail` in both dialects, in parentheses."""
    listed = ", ".join(f"{text} AS {name}" for text, name in outputs)
    ours, duck = (f"({head} {listed} FROM {table}{end})" for table, end in zip(tables, tail, strict=True))
    return ours, duck


def named(relation: Relation, alias: str) -> tuple[str, str]:
    """The relation as an item of FROM with an alias, in both dialects."""
    return f"{relation.ours} AS {alias}", f"{relation.duck} AS {alias}"
