"""Whether one predicate implies another: decided by evaluating both where they could differ.

A predicate that compares an expression with constants is the same everywhere between two neighbouring constants. So the
values that matter are finitely many: the constants and one value of each segment between them, for every expression
that is compared, TRUE, FALSE and NULL for every condition of another kind. Expressions are taken as independent of each
other, which can only miss an implication.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace

import polars as pl

from dsms.optimizer.view_matching.representative_values import representatives
from operators.expressions import MIRRORED, Call, Column, Expression, Literal, columns, evaluate
from operators.expressions.arrow_types import polars_type

_CONNECTIVES = frozenset({"and", "or", "not"})
_COMPARED = frozenset({*MIRRORED, "not_equal", "in", "distinct", "not_distinct"})
_TESTED = frozenset({"is_null", "is_not_null"})
#: Beyond so many combinations of values nothing is said.
_MOST = 20_000


def implies(given: Collection[Expression], wanted: Expression) -> bool:
    """Whether every row for which all of `given` are TRUE makes `wanted` TRUE; False where that is not known.

    All of them must be total.

    >>> import pyarrow as pa
    >>> from operators.expressions import call
    >>> n = Column("n", pa.int64())
    >>> more = [call("greater", n, Literal(limit, pa.int64())) for limit in (80, 100)]
    >>> implies([more[1]], more[0]), implies([more[0]], more[1])
    (True, False)
    """
    if wanted in given:
        return True
    subjects = _Subjects()
    goal = subjects.abstracted(wanted)
    about = set(subjects.columns)
    known = [subjects.abstracted(one) for one in given if _Subjects.of(one) & about]
    points = subjects.points()
    if not known or points is None:
        return False
    values, faults = evaluate(points, {"goal": goal} | {f"known{at}": one for at, one in enumerate(known)})
    assert faults.null_count() == len(faults)
    missed = pl.all_horizontal(pl.exclude("goal")).fill_null(value=False) & ~pl.col("goal").fill_null(value=False)
    return not values.select(missed.any()).item()


@dataclass
class _Subjects:
    """The expressions that predicates are about, each as a column with the constants it is compared with."""

    columns: dict[Expression, Column] = field(default_factory=dict)
    constants: dict[Expression, set[Hashable]] = field(default_factory=dict)
    prefixes: dict[Expression, set[str]] = field(default_factory=dict)

    @staticmethod
    def of(predicate: Expression) -> set[Expression]:
        """What a predicate is about."""
        subjects = _Subjects()
        subjects.abstracted(predicate)
        return set(subjects.columns)

    def abstracted(self, predicate: Expression) -> Expression:
        """The predicate over a column for each subject."""
        match predicate:
            case Call(function, parts) if function in _CONNECTIVES:
                return replace(predicate, arguments=tuple(map(self.abstracted, parts)))
            case Call(function, (subject,)) if function in _TESTED:
                return replace(predicate, arguments=(self._column(subject),))
            case Call("like" | "starts_with", (subject, Literal(str(pattern)))) if _is_prefix(predicate, pattern):
                column = self._column(subject)
                self.prefixes[subject].add(pattern.removesuffix("%"))
                return replace(predicate, arguments=(column, *predicate.arguments[1:]))
            case Call(function, parts) if function in _COMPARED:
                return self._compared(predicate, parts)
        return self._column(predicate)

    def _compared(self, predicate: Call, parts: tuple[Expression, ...]) -> Expression:
        others = [one for one in parts if columns(one)]
        if len(others) != 1 or len(parts) == 1:
            return self._column(predicate)
        column, values = self._column(others[0]), {_value(one) for one in parts if not columns(one)}
        self.constants[others[0]] |= values - {None}
        return replace(predicate, arguments=tuple(column if one is others[0] else one for one in parts))

    def _column(self, subject: Expression) -> Column:
        if subject not in self.columns:
            self.columns[subject] = Column(f"subject{len(self.columns)}", subject.type)
            self.constants[subject], self.prefixes[subject] = set(), set()
        return self.columns[subject]

    def points(self) -> pl.DataFrame | None:
        """All combinations of the values that matter; None where they are too many or not known."""
        each = [self._values(subject) for subject in self.columns]
        if any(values is None for values in each) or math.prod(len(values or ()) for values in each) > _MOST:
            return None
        rows = itertools.product(*(values or () for values in each))
        schema = {column.name: polars_type(column.type) for column in self.columns.values()}
        return pl.DataFrame(list(rows), schema=schema, orient="row")

    def _values(self, subject: Expression) -> set[Hashable] | None:
        return representatives(subject.type, self.constants[subject], self.prefixes[subject])


def _value(constant: Expression) -> Hashable:
    if isinstance(constant, Literal):
        return constant.value
    value: Hashable = evaluate(pl.DataFrame({"row": [0]}), {"value": constant})[0].item()
    return value


def _is_prefix(predicate: Call, pattern: str) -> bool:
    if predicate.function == "starts_with":
        return True
    return pattern.endswith("%") and not set(pattern[:-1]) & set("%_\\") and len(predicate.arguments) == 2
