"""Merges two operators with equal rows and different columns into one that has the columns of both.

`SELECT k, SUM(a) … GROUP BY k` and `SELECT k, COUNT(*) … GROUP BY k` become one group-by with both aggregates; a join
of which two queries select different columns becomes one join with all of these. Neither query contains the other, so
view matching alone finds nothing; but both can be computed from the merged operator (common subexpressions of Zhou et
al., SIGMOD 2007, section 4, without the disjunction of conditions, so it never has more rows than either).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.kept_state import with_own_state
from dsms.model.properties import walk
from dsms.planner.optimizer.optimize import optimize, with_all_columns
from dsms.planner.optimizer.view_matching.canonical_form import canonical_form, digest, signature
from dsms.planner.optimizer.view_matching.core_columns import all_over, output_columns
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Expression


def merged(node: logical.Node, view: logical.Node, view_text: logical.Node) -> logical.Node | None:
    """The merged operator of the uppermost parts of `node` and `view` that have the same rows and different columns;
    None if there is none, or if one of them contains the other. `view` is the plan that runs, `view_text` the plan as
    it was bound, from which its other columns are taken.
    """
    wide = with_all_columns(view_text)
    for mine in with_own_state(optimize(node)):
        for theirs in with_own_state(view):
            if canonical_form(mine).rows == canonical_form(theirs).rows:
                return None if _one_contains_the_other(mine, theirs) else _merged(mine, theirs, wide)
    return None


def _one_contains_the_other(mine: logical.Node, theirs: logical.Node) -> bool:
    first, second = (set(canonical_form(node).outputs.values()) for node in (mine, theirs))
    return first <= second or second <= first


def _merged(mine: logical.Node, theirs: logical.Node, wide: logical.Node) -> logical.Node | None:
    if isinstance(mine, logical.GroupBy) and isinstance(theirs, logical.GroupBy):
        return _merged_groups(mine, theirs, wide)
    outputs = _distinct(output for node in (theirs, mine) for output in canonical_form(node).outputs.values())
    rows = _projected(canonical_form(theirs).rows, outputs, wide)
    return None if rows is None else optimize(rows)


def _merged_groups(mine: logical.GroupBy, theirs: logical.GroupBy, wide: logical.Node) -> logical.Node | None:
    """Groups by the same keys with the aggregates of both, over the columns that both read."""
    groups = [(group, canonical_form(group.input).outputs) for group in (theirs, mine)]
    rows = _projected(canonical_form(theirs.input).rows, _distinct(_read(groups)), wide)
    if rows is None:
        return None
    aggregates = {
        signature(aggregate, outputs): _renamed(aggregate, outputs)
        for group, outputs in groups
        for aggregate in group.aggregates
    }
    of_input = groups[0][1]
    keys = tuple(_name(of_input[key]) for key in theirs.keys)
    bound = None if theirs.bound is None else _name(of_input[theirs.bound])
    named = tuple(replace(aggregate, name=f"__{name}") for name, aggregate in aggregates.items())
    return optimize(replace(theirs, input=rows, keys=keys, aggregates=named, bound=bound))


def _read(groups: Iterable[tuple[logical.GroupBy, dict[str, Expression]]]) -> Iterator[Expression]:
    """The columns that groups read, as expressions over columns of cores."""
    for group, outputs in groups:
        yield from (outputs[key] for key in group.keys)
        for aggregate in group.aggregates:
            yield from (outputs[name] for name in aggregate.arguments)
            yield from (outputs[key.column] for key in aggregate.order_by)
            yield from () if aggregate.filter is None else (outputs[aggregate.filter],)


def _renamed(aggregate: Aggregate, outputs: dict[str, Expression]) -> Aggregate:
    """The aggregate over columns that are named by their contents."""
    return replace(
        aggregate,
        arguments=tuple(_name(outputs[name]) for name in aggregate.arguments),
        filter=None if aggregate.filter is None else _name(outputs[aggregate.filter]),
        order_by=tuple(replace(key, column=_name(outputs[key.column])) for key in aggregate.order_by),
    )


def _projected(rows: str, outputs: list[Expression], wide: logical.Node) -> logical.Node | None:
    """A part of the plan `wide` with these rows, projected to the outputs, which are expressions over columns of cores;
    None if no part has all of them."""
    for part in walk(wide):
        form = canonical_form(part)
        if form.rows == rows and (over := all_over(outputs, output_columns(form.outputs))) is not None:
            names = map(_name, outputs)
            return logical.Project(part, tuple(zip(names, over, strict=True)))
    return None


def _name(output: Expression) -> str:
    return f"__{digest(output)}"


def _distinct(outputs: Iterable[Expression]) -> list[Expression]:
    """Each expression once, in an order that does not depend on the query."""
    return sorted(set(outputs), key=fingerprint)
