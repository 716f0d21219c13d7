"""What a Shed measures of the groups above it: the columns of the stream that determine a group, and the values that
are added up in it.

Columns of a looked-up relation are not known at the Shed. But they are the same for all rows of equal lookup columns,
so the Shed measures the finer groups by these columns. A group of the result is a union of such groups, and its error
is at most the largest of theirs (docs/design/20261121-shedding.md, "Lookups").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.substitute import substitute
from dsms.planner.optimizer.shed_lookups import lookup_of, stream_below
from operators.aggregates import ALIASES
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Call, Column, Expression, Literal, call, cast, column, columns
from operators.streams.shed import Value

Expressions = tuple[Expression, ...]
_DOUBLE = pa.float64()
#: Functions that are at least 0 if one of their arguments is, and those that are if all are.
_ONE, _ALL = frozenset({"greatest"}), frozenset({"multiply", "divide", "add", "coalesce", "least", "widen", "cast"})


@dataclass(frozen=True)
class Known:
    """What is known of an expression over the rows above the lookups, by expressions over the columns of the stream.

    `value` equals it; None if it depends on a relation. `determined_by` determine it. It is the product of `factors`
    and of a constant, which `constant_by` determine and which is at least 0 if `nonnegative`; `factors` are None if no
    such product is known.
    """

    value: Expression | None
    determined_by: Expressions
    factors: Expressions | None
    constant_by: Expressions = ()
    nonnegative: bool = False


Columns = Mapping[str, Known]


@dataclass(frozen=True)
class Measures:
    """The columns `keys` and `values` of a Shed over `input`. If `merged`, a group of the result may consist of several
    groups of `keys`. `unknown` are the aggregates whose values are not known, each with the reason."""

    input: logical.Node
    keys: tuple[str, ...]
    values: tuple[Value, ...]
    merged: bool
    unknown: tuple[tuple[Aggregate, str], ...]


def measures(group: logical.GroupBy, window_keys: frozenset[str], *, where: bool) -> Measures:
    """What the Shed of a group-by measures; `where`: only some rows may be dropped. Windows are no groups: the density
    of rows over instants stands for them.
    """
    stream = stream_below(group.input)
    known, selected_by = _above(group.input, stream)
    group_keys = [known[key] for key in group.keys if key not in window_keys]
    found = _Found(known, schema(stream))
    found.keys.extend((*_determinants(group_keys), *selected_by))
    values = [found.value(aggregate) for aggregate in group.aggregates]
    merged = not set(found.keys) <= {key.value for key in group_keys}
    unknown = [(aggregate, found.unknown(aggregate, where=where, merged=merged)) for aggregate in group.aggregates]
    keys = tuple(dict.fromkeys(found.column(key) for key in found.keys))
    source = logical.Project(stream, (*unchanged(schema(stream)), *found.columns)) if found.columns else stream
    reasons = tuple((aggregate, why) for aggregate, why in unknown if why is not None)
    return Measures(source, keys, tuple(dict.fromkeys(values)), merged, reasons)


@dataclass
class _Found:
    """Collects the keys and the computed columns that a Shed measures."""

    known: Columns
    stream: pa.Schema
    keys: list[Expression] = field(default_factory=list)
    columns: list[tuple[str, Expression]] = field(default_factory=list)

    def value(self, aggregate: Aggregate) -> Value:
        """What a row adds to an aggregate, up to a factor that is constant in each measured group."""
        function = ALIASES.get(aggregate.function, aggregate.function)
        argument = self._argument(aggregate)
        return Value(argument, self._filter(aggregate), function == "count", function == "avg")

    def _filter(self, aggregate: Aggregate) -> str | None:
        """The column of a filter; None if it holds for all rows of a measured group or for none."""
        if aggregate.filter is None:
            return None
        known = self.known[aggregate.filter]
        if known.value is not None and total(known.value):
            return self.column(known.value)
        self.keys.extend(known.determined_by)
        return None

    def _argument(self, aggregate: Aggregate) -> str | None:
        if not aggregate.arguments:
            return None
        known = self.known[aggregate.arguments[0]]
        if known.factors is None:
            self.keys.extend(known.determined_by)
            return None
        self.keys.extend(known.constant_by)
        return self.column(_product(known.factors)) if known.factors else None

    def unknown(self, aggregate: Aggregate, *, where: bool, merged: bool) -> str | None:
        """Why no bound on the error of an aggregate is known; None if one is."""
        function = ALIASES.get(aggregate.function, aggregate.function)
        if function == "count":
            return None
        known = self.known[aggregate.arguments[0]]
        if known.factors is None:
            return "how its values are distributed is not known before the join"
        if merged and known.constant_by and not known.nonnegative:
            return "values of both signs could cancel each other, and their signs are not known before the join"
        if merged and where and function == "avg":
            return "how far a record is from the mean of its group is not known before the join"
        return None

    def column(self, expression: Expression) -> str:
        """The name of the column with an expression, which is computed if the stream does not have it."""
        if isinstance(expression, Column) and expression.name in self.stream.names:
            return expression.name
        for name, computed in self.columns:
            if computed == expression:
                return name
        self.columns.append((f"__measured{len(self.columns)}", expression))
        return self.columns[-1][0]


def _product(factors: Expressions) -> Expression:
    """The product of numbers. More than one are multiplied as floats, so it has a value on every row."""
    if len(factors) == 1:
        return factors[0]
    return reduce(lambda product, factor: call("multiply", product, factor), [cast(one, _DOUBLE) for one in factors])


# --- from the stream upwards


def _above(node: logical.Node, stream: logical.Node) -> tuple[Columns, Expressions]:
    """The columns of a plan over `stream`, and what determines which rows of the stream are in it."""
    if node is stream:
        return {one.name: _of_stream(column(one)) for one in schema(stream)}, ()
    match node:
        case logical.Filter():
            known, selected_by = _above(node.input, stream)
            return known, (*selected_by, *_known(node.predicate, known).determined_by)
        case logical.Project():
            known, selected_by = _above(node.input, stream)
            return {name: _known(output, known) for name, output in node.outputs}, selected_by
    lookup = lookup_of(node)
    assert lookup is not None
    known, selected_by = _above(lookup.stream, stream)
    by = _determinants(known[name] for name in lookup.by)
    partner = Known(None, by, (), by)
    both = {name: known.get(name, partner) for name in schema(node).names}
    return both, (*selected_by, *by) if lookup.selects else selected_by


def _of_stream(value: Expression) -> Known:
    return Known(value, (value,), (value,), nonnegative=True)


def _known(expression: Expression, known: Columns) -> Known:
    match expression:
        case Column(name):
            return known[name]
        case Literal(value):
            return Known(expression, (), (), nonnegative=isinstance(value, int | float | Decimal) and value >= 0)
        case Call():
            return _known_call(expression, known)
    return Known(None, _determinants(known[name] for name in sorted(columns(expression))), None)


def _known_call(expression: Call, known: Columns) -> Known:
    parts = [_known(argument, known) for argument in expression.arguments]
    value = None
    if all(part.value is not None for part in parts):
        value = substitute(expression, {name: one.value for name, one in known.items() if one.value is not None})
    if value is not None and columns(value) and total(value):
        return _of_stream(value)
    constant_by = _merged(part.constant_by for part in parts)
    factors = _factors(expression, parts)
    return Known(value, _determinants(parts), factors, constant_by, _is_nonnegative(expression.function, parts))


def _factors(expression: Call, parts: list[Known]) -> Expressions | None:
    """The factors of a call that depend on more than the lookup columns: of a product, those of both operands."""
    factors = [part.factors for part in parts]
    if all(one == () for one in factors):
        return ()
    floating = pa.types.is_floating(expression.type)
    match expression.function, factors:
        case "multiply", [tuple() as left, tuple() as right]:
            return left + right
        case "divide", [tuple() as left, ()] if floating:
            return left
        case "widen", [tuple() as only]:
            return only
        case "cast", [tuple() as only] if floating:
            return only
    return None


def _is_nonnegative(function: str, parts: list[Known]) -> bool:
    signs = [part.nonnegative for part in parts]
    return function == "abs" or (function in _ONE and any(signs)) or (function in _ALL and all(signs))


def _determinants(parts: Iterable[Known]) -> Expressions:
    return _merged(part.determined_by for part in parts)


def _merged(parts: Iterable[Expressions]) -> Expressions:
    return tuple(dict.fromkeys(one for part in parts for one in part))
