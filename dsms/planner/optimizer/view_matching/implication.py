"""Decides whether one predicate implies another, by evaluating both on finitely many representative rows.

A predicate that compares an expression with constants has the same value on the whole segment between two neighbouring
constants. So it is enough to try, for each compared expression, the constants and one value of each segment between
them; for any other kind of condition, TRUE, FALSE and NULL. Expressions are assumed to be independent of each other, so
an implication can be missed, but never found wrongly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace

import polars as pl

from dsms.planner.optimizer.view_matching.representative_values import representatives
from operators.expressions import LONGEST_CONSTANT, MIRRORED, Call, Column, Expression, Literal, columns, evaluate
from operators.expressions.arrow_types import polars_type

_CONNECTIVES = frozenset({"and", "or", "not"})
_COMPARED = frozenset({*MIRRORED, "not_equal", "in", "distinct", "not_distinct"})
_TESTED = frozenset({"is_null", "is_not_null"})
#: If there are more combinations of values than this, `implies` returns False without a decision.
_MAX_POINTS = 20_000


def implies(given: Collection[Expression], wanted: Expression) -> bool:
    """Whether `wanted` is TRUE on every row on which all of `given` are TRUE; False also if this is unknown.

    All predicates must be total.

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
    goal_subjects = set(subjects.columns)
    premises = [subjects.abstracted(predicate) for predicate in given if _Subjects.of(predicate) & goal_subjects]
    points = subjects.points()
    if not premises or points is None:
        return False
    outputs = {"goal": goal} | {f"premise{at}": premise for at, premise in enumerate(premises)}
    values, faults = evaluate(points, outputs)
    assert faults.null_count() == len(faults)
    refuted = pl.all_horizontal(pl.exclude("goal")).fill_null(value=False) & ~pl.col("goal").fill_null(value=False)
    return not values.select(refuted.any()).item()


def remaining(wanted: frozenset[Expression], available: frozenset[Expression]) -> frozenset[Expression] | None:
    """The conditions of `wanted` that remain to be tested on rows that satisfy `available`; None if `available` may
    exclude rows that satisfy `wanted`."""
    if not all(implies(wanted, condition) for condition in available):
        return None
    return frozenset(condition for condition in wanted if not implies(available, condition))


@dataclass
class _Subjects:
    """The expressions that predicates test ("subjects"). Each is replaced by a column, and has the constants and
    prefixes with which it is compared.
    """

    columns: dict[Expression, Column] = field(default_factory=dict)
    constants: dict[Expression, set[Hashable]] = field(default_factory=dict)
    prefixes: dict[Expression, set[str]] = field(default_factory=dict)

    @staticmethod
    def of(predicate: Expression) -> set[Expression]:
        """The expressions that a predicate tests."""
        subjects = _Subjects()
        subjects.abstracted(predicate)
        return set(subjects.columns)

    def abstracted(self, predicate: Expression) -> Expression:
        """The predicate with each subject replaced by its column."""
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
        variables = [part for part in parts if columns(part)]
        if len(variables) != 1 or len(parts) == 1 or not all(map(_known, set(parts) - set(variables))):
            return self._column(predicate)
        subject = variables[0]
        column, values = self._column(subject), {_value(part) for part in parts if not columns(part)}
        self.constants[subject] |= values - {None}
        return replace(predicate, arguments=tuple(column if part is subject else part for part in parts))

    def _column(self, subject: Expression) -> Column:
        if subject not in self.columns:
            self.columns[subject] = Column(f"subject{len(self.columns)}", subject.type)
            self.constants[subject], self.prefixes[subject] = set(), set()
        return self.columns[subject]

    def points(self) -> pl.DataFrame | None:
        """All combinations of representative values; None if there are too many, or if a type has no representative
        values."""
        values = [self._values(subject) for subject in self.columns]
        known = [of_subject for of_subject in values if of_subject is not None]
        if len(known) < len(values) or math.prod(map(len, known)) > _MAX_POINTS:
            return None
        rows = itertools.product(*known)
        schema = {column.name: polars_type(column.type) for column in self.columns.values()}
        return pl.DataFrame(list(rows), schema=schema, orient="row")

    def _values(self, subject: Expression) -> set[Hashable] | None:
        return representatives(subject.type, self.constants[subject], self.prefixes[subject])


def _known(constant: Expression) -> bool:
    """Whether the value of a constant expression exists and is small enough to be computed while planning."""
    return isinstance(constant, Literal) or _computed(constant)[1][0] is None


def _value(constant: Expression) -> Hashable:
    if isinstance(constant, Literal):
        return constant.value
    value: Hashable = _computed(constant)[0].item()
    return value


def _computed(constant: Expression) -> tuple[pl.DataFrame, pl.Series]:
    return evaluate(pl.DataFrame({"row": [0]}), {"value": constant}, LONGEST_CONSTANT)


def _is_prefix(predicate: Call, pattern: str) -> bool:
    if predicate.function == "starts_with":
        return True
    return pattern.endswith("%") and not set(pattern[:-1]) & set("%_\\") and len(predicate.arguments) == 2
