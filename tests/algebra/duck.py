"""The oracle: DuckDB evaluates the query of a case at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import cast

import duckdb
import pyarrow as pa

from operators.core.delta import BEGINNING
from tests.algebra.cases import Case
from tests.algebra.query_leaves import END, load
from tests.algebra.query_parts import NOW, Kept
from tests.support import oracle

Bag = list[tuple[object, ...]]
#: The instants at which relations are compared; the first one is before all records.
INSTANTS = range(-1, END + 1)
#: The instants at which views with TS are computed. At the first one, relations are as at all earlier instants:
#: histories begin at 0, and clocks have short periods.
LONG = range(-12, END + 1)
#: Doubles that differ by no more than this are equal.
_NOTHING = 1e-9


class Duck:
    """DuckDB without its optimizer, over the histories of one case at a time."""

    def __init__(self) -> None:
        self.database = duckdb.connect()
        self.database.execute("PRAGMA disable_optimizer; PRAGMA threads=1")
        #: The numbers of the statements about the table of the last case that must be refused.
        self.refused: list[int] = []

    def relations(self, case: Case, *, at_once: bool = True) -> list[Bag]:
        """The rows at every one of INSTANTS.

        `at_once` computes them in one statement, by a join with the instants. Otherwise each instant is a statement
        without that join, which is slow.
        """
        load(self.database, case.sources)
        self.refused = [number for table in case.tables for number in table.load(self.database)]
        ask = self._at_once if at_once else self._one_by_one
        for kept in case.kept:
            self._keep(kept, ask(kept.duck, LONG))
        return streamed(ask(case.duck, INSTANTS), case.output, case.clock)

    def _at_once(self, query: str, instants: range) -> list[Bag]:
        taus = f"range({instants.start}, {instants.stop}) AS instants(tau)"
        text = f"SELECT tau, q.* FROM {taus}, LATERAL ({query.replace(NOW, 'instants.tau')}) AS q"
        bags: list[Bag] = [[] for _ in instants]
        for at, *row in self.database.execute(text).fetchall():
            bags[at - instants.start].append(hashable(row))
        return bags

    def _one_by_one(self, query: str, instants: range) -> list[Bag]:
        self.database.execute(f"PREPARE q AS {query.replace(NOW, '$1::BIGINT')}")
        bags = [list(map(hashable, self.database.execute(f"EXECUTE q({at})").fetchall())) for at in instants]
        self.database.execute("DEALLOCATE q")
        return bags

    def _keep(self, view: Kept, relations: list[Bag]) -> None:
        """Stores the rows of a view at each instant from BEGINNING on, with the instant of their last change."""
        if view.output in ("istream", "dstream"):
            relations = [[*relations[0], *rows] for rows in streamed(relations, view.output)]
            relations = [rows if view.output == "istream" else rows[len(relations[0]) :] for rows in relations]
        instants = [BEGINNING, *LONG[1:]]
        named = {
            at: [dict(zip(view.columns, row, strict=True)) for row in rows]
            for at, rows in zip(instants, relations, strict=True)
        }
        kept = [
            {**row, "__at": LONG.start if at == BEGINNING else at}
            for at, rows in oracle.restamped(named, view.keys).items()
            for row in rows
        ]
        self.database.execute(
            f"CREATE OR REPLACE TEMP TABLE {view.name} AS SELECT *, 0::BIGINT AS TS, 0::BIGINT AS __at "
            f"FROM ({view.duck.replace(NOW, '0::BIGINT')}) LIMIT 0"
        )
        columns = self.database.sql(f"SELECT * FROM {view.name}").to_arrow_table().schema
        self.database.register("kept", pa.Table.from_pylist(kept, schema=columns))
        self.database.execute(f"INSERT INTO {view.name} SELECT * FROM kept")


def streamed(relations: list[Bag], output: str, clock: tuple[int, int] | None = None) -> list[Bag]:
    """The rows of a stream of the relations, up to each instant.

    Istream and Dstream have all rows that have entered or left since the first instant, Rstream the rows at each point
    of the clock from the first change on. For other outputs, returns the relations.
    """
    if output == "rstream":
        assert clock is not None
        return _at_points(relations, *clock)
    if output not in ("istream", "dstream"):
        return relations
    total: Bag = []
    bags = []
    for before, after in zip([relations[0], *relations], relations, strict=False):
        entered, left = _steady_rows(after), _steady_rows(before)
        changed, rows = (entered - left, after) if output == "istream" else (left - entered, before)
        whole = {_steady(row): row for row in rows}
        total = [*total, *(whole[row] for row in changed.elements())]
        bags.append(total)
    return bags


def _steady_rows(rows: Bag) -> Counter[object]:
    return Counter(map(_steady, rows))


def _steady(value: object) -> object:
    """A double without its last digits, so that rounding differences in DuckDB's sums are not taken as changes."""
    if isinstance(value, tuple):
        return tuple(map(_steady, value))
    return float(f"{value:.13g}") if isinstance(value, float) else value


def _at_points(relations: list[Bag], period: int, residue: int) -> list[Bag]:
    total: Bag = []
    bags = []
    for at, rows in zip(INSTANTS, relations, strict=True):
        changed = any(Counter(relation) != Counter(relations[0]) for relation in relations[: at - INSTANTS.start + 1])
        total = [*total, *(rows if changed and at % period == residue else [])]
        bags.append(total)
    return bags


def hashable(row: Iterable[object]) -> tuple[object, ...]:
    """A row whose lists are tuples."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def same(ours: Bag, theirs: Bag) -> bool:
    """Whether two bags are equal, floats to nine digits."""
    if len(ours) != len(theirs):
        return False
    left, right = (sorted(bag, key=_rank) for bag in (ours, theirs))
    return all(_equal(a, b) for row, other in zip(left, right, strict=True) for a, b in zip(row, other, strict=True))


def _rank(row: tuple[object, ...]) -> list[tuple[object, ...]]:
    return [_place(value) for value in row]


def _place(value: object) -> tuple[object, ...]:
    if value is None:
        return (0,)
    if isinstance(value, bool | str):
        return (1, str(value))
    if isinstance(value, date):
        return (4, str(value))
    if isinstance(value, tuple):
        return (3, *(_place(element) for element in value))
    number = float(value)  # type: ignore[arg-type]
    return (2, float(f"{number:.8g}") if abs(number) > _NOTHING else 0.0)


def _of_scale(number: Decimal, other: Decimal) -> Decimal:
    """The number, rounded to the smaller scale of both: DuckDB drops decimals if a type exceeds 38 digits."""
    scale = max(Decimal(1).scaleb(cast(int, operand.as_tuple().exponent)) for operand in (number, other))
    return number.quantize(scale, ROUND_HALF_UP)


def _equal(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if any(value is None or isinstance(value, bool | str | date) for value in (a, b)):
        return a == b and type(a) is type(b)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return _of_scale(a, b) == _of_scale(b, a)
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=_NOTHING)  # type: ignore[arg-type]
