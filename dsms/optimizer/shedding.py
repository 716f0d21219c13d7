"""Plans whose input may be shed: counts, sums and averages of a stream become estimates with errors.

A Shed stands below the group-by; each row that stays has a share, the inverse of the chance that it had. With s the
share, a total Σ x is estimated by Σ x·s, its variance by Σ x²·s·(s-1) (Horvitz and Thompson; records stay or go
independently), and a mean by the ratio of two totals, with the variance of its linear part. Rows of share 1 are
aggregated apart and exactly, so where nothing was shed the result is the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import append_only, inputs, walk
from dsms.model.rebuild import with_inputs
from dsms.model.schema import schema
from dsms.optimizer.algebra.column_origin import origin
from dsms.optimizer.algebra.column_projections import unchanged
from dsms.optimizer.error_columns import CONFIDENCE, ERROR, number, with_errors
from operators.aggregates import ALIASES
from operators.aggregates.aggregate import Aggregate
from operators.core.errors import UserError
from operators.expressions import Column, Expression, Literal, call, cast, column, columns
from operators.streams.shed import SHARE, Value

_DOUBLE = pa.float64()
_SHARE = Column(SHARE, _DOUBLE, nullable=False)
#: The column that says whether a row may be left out.
_ONLY = "__only"
_SHEDDABLE = frozenset({"count", "sum", "avg"})
#: What stands above the group-by, and why it cannot.
_ABOVE = {
    logical.Join: "a join", logical.AsofJoin: "an as-of join", logical.Union: "UNION", logical.Distinct: "DISTINCT",
    logical.SetOperation: "EXCEPT or INTERSECT", logical.TopK: "ORDER BY … LIMIT", logical.WindowFunctions: "OVER",
    logical.Session: "a session window", logical.RowWindow: "a window of ROWS", logical.Values: "VALUES",
    logical.ToStream: "Istream, Dstream or Rstream", logical.Unnest: "UNNEST", logical.GroupBy: "a group of groups",
    logical.Sync: "a synchronised relation", logical.Restamp: "the TS of a view",
}  # fmt: skip
_CHANGES_ROWS = {
    logical.RowWindow: "another row would be in the window in the place of one that is left out",
    logical.Session: "a row that is left out would cut a session in two",
    logical.Distinct: "it is not known what a row that is left out would have been equal to",
    logical.Join: "the rows of a join do not stay or go independently",
    logical.Unnest: "rows of one record do not stay or go independently",
}


#: A condition over the columns of a stream: what it is not TRUE of is never left out.
Only = Callable[[logical.StreamScan], Expression]


def shed(node: logical.Node, query: str, *, error_columns: bool, only: Only | None = None) -> logical.Node:
    """The bound plan of a query with a Shed below its group-by; with `error_columns` each row has its error and the
    confidence. Raises UserError, with construct and reason, where a bound on the error could not be kept."""
    return _above(node, _Asked(query, error_columns, only))[0]


def sheds(node: logical.Node) -> logical.Shed | None:
    """The Shed of a plan."""
    return next((one for one in walk(node) if isinstance(one, logical.Shed)), None)


def window_length(node: logical.Node) -> int | None:
    """For how many instants the rows of a result come, at least; None for all that there ever were."""
    shed_ = sheds(node)
    assert shed_ is not None
    for one in walk(shed_):
        if isinstance(one, logical.Assign):
            return one.size if one.kind == "hop" else one.slide
        if isinstance(one, logical.TimeWindow) and one.length is not None:
            return one.length + 1
    return None


@dataclass(frozen=True)
class _Asked:
    """The query, whether its rows have their errors, and what may be left out."""

    query: str
    errors: bool
    only: Only | None


#: A plan, and which of its columns are estimates.
_Estimated = tuple[logical.Node, frozenset[str]]


def _above(node: logical.Node, asked: _Asked) -> _Estimated:
    """What stands above the group-by."""
    match node:
        case logical.GroupBy():
            return _grouped(node, asked), frozenset(one.name for one in node.aggregates)
        case logical.Final():
            below, estimates = _above(node.input, asked)
            return replace(node, input=below), estimates
        case logical.Filter():
            below, estimates = _above(node.input, asked)
            if columns(node.predicate) & estimates:
                raise _refused("HAVING", "it may hold of the estimate and not of the exact value")
            return replace(node, input=below), estimates
        case logical.Project():
            below, estimates = _above(node.input, asked)
            more = unchanged(pa.schema([schema(below).field(name) for name in (ERROR, CONFIDENCE) if asked.errors]))
            return replace(node, input=below, outputs=(*node.outputs, *more)), _projected(node, estimates)
    if isinstance(node, logical.SemiJoin):
        raise _refused("the right side of a negation" if node.anti else "IN or EXISTS", _no_group())
    raise _refused(_word(node), _CHANGES_ROWS.get(type(node), _no_group()))


def _projected(node: logical.Project, estimates: frozenset[str]) -> frozenset[str]:
    for _, output in node.outputs:
        if not isinstance(output, Column) and columns(output) & estimates:
            raise _refused("an expression over an aggregate", "its error does not follow from that of the aggregate")
    return frozenset(name for name, output in node.outputs if isinstance(output, Column) and output.name in estimates)


def _no_group() -> str:
    return "only COUNT, SUM and AVG over one stream have a known error"


def _word(node: logical.Node) -> str:
    return _ABOVE.get(type(node), "a query without an aggregate")


def _refused(construct: str, why: str) -> UserError:
    return UserError(f"max_error cannot be kept over {construct}: {why}", hint="leave max_error out")


# --- below the group-by


def _check_below(node: logical.Node, group: logical.GroupBy) -> None:
    match node:
        case logical.StreamScan(promises=(_, *_)):
            why = "which records of it are refused depends on the others"
            raise _refused(f'a source with CLUSTERED BY or REFERENCES, "{node.source.name}"', why)
        case logical.StreamScan(keys=()):
            return
        case logical.StreamScan():
            raise _refused("a keyed stream", "a row that is left out would leave an old one in its place")
        case logical.Assign(kind=kind, size=size, slide=slide) if kind == "cumulate" or size != slide:
            if not any(_is_window_end(group.input, key) for key in group.keys):
                why = "a record has several windows; group by window_end"
                raise _refused("windows that overlap", why)
        case logical.Filter() | logical.Project() | logical.Sample() | logical.TimeWindow() | logical.NowFilter():
            pass
        case logical.Assign():
            pass
        case logical.Restamp() if append_only(node.input):
            pass
        case logical.SemiJoin():
            what = "the right side of a negation" if node.anti else "IN or EXISTS"
            raise _refused(what, "a row that is left out would change which others there are")
        case _:
            raise _refused(_word(node), _CHANGES_ROWS.get(type(node), _no_group()))
    _check_below(node.input, group)


def _is_window_end(node: logical.Node, name: str) -> bool:
    return _of_window(node, name) == "window_end"


def _of_window(node: logical.Node, name: str) -> str | None:
    """The name that a column has in the window that makes it; None where none does."""
    if isinstance(node, logical.Assign) and name in ("window_start", "window_end"):
        return name
    came = origin(node, name)
    return None if came is None else _of_window(*came)


# --- the group-by


@dataclass
class _Rewriting:
    """The columns and aggregates that the estimates of a group-by are made of."""

    below: pa.Schema
    #: Whether variances are asked for.
    errors: bool
    inputs: list[tuple[str, Expression]] = field(default_factory=list)
    sums: list[Aggregate] = field(default_factory=list)

    def whole(self, one: Aggregate, function: str, argument: str | None) -> Column:
        """An aggregate over the rows that count for `one` and that nothing else stands for."""
        kept = call("equal", _SHARE, number(1.0))
        name = self._input(kept if one.filter is None else call("and", kept, self._column(one.filter)))
        arguments = one.arguments if argument is None else (argument,)
        type_ = pa.int64() if function == "count" else one.type if argument is None else _DOUBLE
        return self._aggregate(Aggregate("", function, arguments, type_, function != "count", filter=name))

    def part(self, one: Aggregate, value: Expression) -> Column:
        """A sum over the rows that count for `one` and stand for others, too."""
        tests: list[Expression] = [call("greater", _SHARE, number(1.0))]
        tests += [] if one.filter is None else [self._column(one.filter)]
        tests += [call("is_not_null", self._column(name)) for name in one.arguments]
        condition = tests[0]
        for test in tests[1:]:
            condition = call("and", condition, test)
        name = self._input(call("case", condition, value, Literal(None, _DOUBLE)))
        return self._aggregate(Aggregate("", "sum", (name,), _DOUBLE))

    def spread(self, one: Aggregate, value: Expression) -> Expression:
        """A sum that only variances need."""
        return self.part(one, value) if self.errors else Literal(None, _DOUBLE)

    def double(self, name: str) -> Expression:
        """A column as a float."""
        return cast(self._column(name), _DOUBLE)

    def doubled(self, name: str) -> str:
        """The name of a column as a float."""
        return self._input(self.double(name))

    def _column(self, name: str) -> Column:
        return column(self.below.field(name))

    def _input(self, expression: Expression) -> str:
        name = f"__shed{len(self.inputs)}"
        self.inputs.append((name, expression))
        return name

    def _aggregate(self, one: Aggregate) -> Column:
        named = replace(one, name=f"__sum{len(self.sums)}")
        self.sums.append(named)
        return Column(named.name, named.type, named.nullable)


#: An estimate, and its variance: NULL where nothing was left out.
_Estimate = tuple[Expression, Expression]


def _grouped(node: logical.GroupBy, asked: _Asked) -> logical.Node:
    _check_below(node.input, node)
    for one in node.aggregates:
        _check_aggregate(one)
    work = _Rewriting(schema(node.input), asked.errors)
    estimates = [_ESTIMATES[ALIASES.get(one.function, one.function)](one, work) for one in node.aggregates]
    looked = [key for key in node.keys if _of_window(node.input, key) is None]
    values, where = tuple(dict.fromkeys(map(_value, node.aggregates))), None if asked.only is None else _ONLY
    source = node.input if asked.only is None else _carrying(node.input, asked.only)
    below = logical.Shed(source, asked.query, tuple(looked), values, where)
    prepared = logical.Project(below, (*unchanged(schema(node.input)), *work.inputs))
    group = replace(node, input=prepared, aggregates=tuple(work.sums))
    keys = unchanged(pa.schema([schema(node).field(key) for key in node.keys]))
    results = [(one.name, found) for one, (found, _) in zip(node.aggregates, estimates, strict=True)]
    if not asked.errors:
        return logical.Project(group, (*keys, *results))
    variances = [(f"__variance{at}", variance) for at, (_, variance) in enumerate(estimates)]
    estimated = logical.Project(group, (*keys, *results, *variances))
    return with_errors(estimated, tuple(name for name, _ in results), tuple(name for name, _ in variances))


def _carrying(node: logical.Node, only: Only) -> logical.Node:
    """What lies below a group-by with the condition as a column of each row."""
    match node:
        case logical.StreamScan():
            return logical.Project(node, (*unchanged(schema(node)), (_ONLY, only(node))))
        case logical.Project():
            carried = (_ONLY, Column(_ONLY, pa.bool_()))
            return replace(node, input=_carrying(node.input, only), outputs=(*node.outputs, carried))
    (below,) = inputs(node)
    return with_inputs(node, (_carrying(below, only),))


def _value(one: Aggregate) -> Value:
    mean = ALIASES.get(one.function, one.function) == "avg"
    return Value(one.arguments[0] if one.arguments else None, one.filter, one.function == "count", mean)


def _check_aggregate(one: Aggregate) -> None:
    if one.distinct:
        raise _refused("DISTINCT in an aggregate", _CHANGES_ROWS[logical.Distinct])
    if ALIASES.get(one.function, one.function) not in _SHEDDABLE:
        raise _refused(one.function.upper(), "one row can decide it, and may be left out")


def _count(one: Aggregate, work: _Rewriting) -> _Estimate:
    whole, part = work.whole(one, "count", None), work.part(one, _SHARE)
    total = call("add", whole, cast(call("round", part), pa.int64()))
    return _if_shed(part, total, whole), work.spread(one, _excess())


def _sum(one: Aggregate, work: _Rewriting) -> _Estimate:
    x = work.double(one.arguments[0])
    whole, part = work.whole(one, "sum", None), work.part(one, call("multiply", x, _SHARE))
    shown = part if one.type == _DOUBLE else cast(call("round", part) if one.type == pa.int64() else part, one.type)
    total = call("coalesce", cast(call("add", whole, shown), one.type), shown)
    return _if_shed(part, total, whole), work.spread(one, call("multiply", call("multiply", x, x), _excess()))


def _average(one: Aggregate, work: _Rewriting) -> _Estimate:
    name = one.arguments[0]
    x, whole = work.double(name), work.whole(one, "avg", None)
    total = call("coalesce", work.whole(one, "sum", work.doubled(name)), number(0.0))
    count = cast(work.whole(one, "count", name), _DOUBLE)
    of_count, of_sum = work.part(one, _SHARE), work.part(one, call("multiply", x, _SHARE))
    rows = call("add", count, of_count)
    mean = call("divide", call("add", total, of_sum), rows)
    ones, xs = work.spread(one, _excess()), work.spread(one, call("multiply", x, _excess()))
    squares = work.spread(one, call("multiply", call("multiply", x, x), _excess()))
    around = call("subtract", squares, call("multiply", mean, call("subtract", call("multiply", number(2.0), xs),
                  call("multiply", mean, ones))))  # fmt: skip
    variance = call("divide", call("greatest", around, number(0.0)), call("multiply", rows, rows))
    return _if_shed(of_count, mean, whole), variance


_ESTIMATES = {"count": _count, "sum": _sum, "avg": _average}


def _excess() -> Expression:
    """s (s - 1)."""
    return call("multiply", _SHARE, call("subtract", _SHARE, number(1.0)))


def _if_shed(part: Expression, estimate: Expression, exact: Expression) -> Expression:
    return call("case", call("is_null", part), exact, estimate)
