"""Push-downs of filters: a table of the nodes below which a filter can be moved.

In the texts of the table, a and b are relations, p and q predicates, f the outputs of a projection and k columns. An
expression is total if it has a value on every row (`conjuncts.total`). Only the conjuncts of a filter that meet the
condition are moved; the others stay above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.push_down import PushDown
from dsms.planner.optimizer.algebra.split import ConjunctTest, filtered, reads_only, same_on_equal_rows, split
from dsms.planner.optimizer.algebra.substitute import substitute
from operators.expressions import Expression, column

_Passed = TypeVar("_Passed", bound=logical.Node)
_Partitioned = logical.TopK | logical.WindowFunctions | logical.Session | logical.RowWindow

_LEMMA = "PIPES lemma 10.2; CQL section 7.2"


def _into_first_input(
    moves: Callable[[_Passed], ConjunctTest],
) -> Callable[[logical.Filter, _Passed], logical.Node | None]:
    """The rewrite of σ_{p∧q}(Θ(A, …)) to σ_q(Θ(σ_p(A), …)), where p is the conjunction of the conjuncts that move."""

    def rewrite(node: logical.Filter, passed: _Passed) -> logical.Node | None:
        moving, staying = split(node.predicate, moves(passed))
        if moving is None:
            return None
        first, *others = inputs(passed)
        return filtered(with_inputs(passed, (logical.Filter(first, moving), *others)), staying)

    return rewrite


def _reads_first_input(node: logical.Node) -> ConjunctTest:
    return reads_only(schema(inputs(node)[0]).names)


def _same_on_equal_rows_of(node: logical.Distinct) -> ConjunctTest:
    return same_on_equal_rows(schema(node).names)


def _same_on_groups(node: logical.GroupBy) -> ConjunctTest:
    return same_on_equal_rows(node.keys)


def _same_on_partitions(node: _Partitioned) -> ConjunctTest:
    if isinstance(node, logical.WindowFunctions):
        return same_on_equal_rows(frozenset.intersection(*(frozenset(call.partition) for call in node.calls)))
    return same_on_equal_rows(node.partition)


def _into_preserved_sides(node: logical.Filter, join: logical.Join) -> logical.Node | None:
    left = schema(join.left).names if join.outer in ("none", "left") else []
    right = schema(join.right).names if join.outer in ("none", "right") else []
    to_left, rest = split(node.predicate, reads_only(left))
    to_right, staying = split(rest, reads_only(right))
    if to_left is None and to_right is None:
        return None
    below = replace(join, left=filtered(join.left, to_left), right=filtered(join.right, to_right))
    return filtered(below, staying)


def _below_outputs(node: logical.Filter, project: logical.Project) -> logical.Node:
    below = logical.Filter(project.input, substitute(node.predicate, dict(project.outputs)))
    return logical.Project(below, project.outputs)


def _into_branches(node: logical.Filter, union: logical.Union) -> logical.Node:
    names = schema(union.inputs[0]).names
    return logical.Union(
        tuple(logical.Filter(branch, _over_branch(node.predicate, names, branch)) for branch in union.inputs)
    )


def _into_operands(node: logical.Filter, operation: logical.SetOperation) -> logical.Node | None:
    names = schema(operation.left).names
    moving, staying = split(node.predicate, same_on_equal_rows(names))
    if moving is None:
        return None
    left, right = (
        logical.Filter(operand, _over_branch(moving, names, operand)) for operand in (operation.left, operation.right)
    )
    return filtered(replace(operation, left=left, right=right), staying)


def _over_branch(predicate: Expression, names: list[str], branch: logical.Node) -> Expression:
    """A predicate over `names`, rewritten for another input, whose columns correspond by position."""
    columns = zip(names, schema(branch), strict=True)
    return substitute(predicate, {name: column(field) for name, field in columns})


FILTER_PUSH_DOWNS = (
    PushDown(
        name="filter_through_join",
        moved=logical.Filter,
        through=(logical.Join,),
        before="a JOIN b ON q WHERE p",
        after="(a WHERE p) JOIN b ON q",
        condition="p is total and reads only a, or only b; an outer join must preserve the rows of that side: on the "
        "other side p would remove partners, and rows would become padded",
        source=_LEMMA,
        rewrite=_into_preserved_sides,
    ),
    PushDown(
        name="filter_through_project",
        moved=logical.Filter,
        through=(logical.Project,),
        before="(SELECT f FROM a) WHERE p",
        after="SELECT f FROM (a WHERE p(f))",
        condition="none: a row on which f or p fails is in the result of neither plan",
        source=f"{_LEMMA}, for a map of relational functions",
        rewrite=_below_outputs,
    ),
    PushDown(
        name="filter_through_union",
        moved=logical.Filter,
        through=(logical.Union,),
        before="(a UNION ALL b) WHERE p",
        after="(a WHERE p) UNION ALL (b WHERE p)",
        condition="none",
        source="PIPES rule 10.5",
        rewrite=_into_branches,
    ),
    PushDown(
        name="filter_through_distinct",
        moved=logical.Filter,
        through=(logical.Distinct,),
        before="(SELECT DISTINCT * FROM a) WHERE p",
        after="SELECT DISTINCT * FROM (a WHERE p)",
        condition="p is total and the same on equal rows",
        source=_LEMMA,
        rewrite=_into_first_input(_same_on_equal_rows_of),
    ),
    PushDown(
        name="filter_through_semi_join",
        moved=logical.Filter,
        through=(logical.SemiJoin,),
        before="(a SEMI JOIN b ON q) WHERE p, (a ANTI JOIN b ON q) WHERE p",
        after="(a WHERE p) SEMI JOIN b ON q, (a WHERE p) ANTI JOIN b ON q",
        condition="p is total",
        source=_LEMMA,
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_asof_join",
        moved=logical.Filter,
        through=(logical.AsofJoin,),
        before="(a ASOF JOIN b) WHERE p",
        after="(a WHERE p) ASOF JOIN b",
        condition="p is total and reads only a: the partner of a row of a does not depend on other rows of a, whereas "
        "a filter of b below the join would make another row of b the nearest",
        source=_LEMMA,
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_group_by",
        moved=logical.Filter,
        through=(logical.GroupBy,),
        before="(SELECT k, sum(x) FROM a GROUP BY k) WHERE p",
        after="SELECT k, sum(x) FROM (a WHERE p) GROUP BY k",
        condition="p is total, reads k alone and is the same on equal k, so that a group passes or fails as a whole; "
        "without k there is a row even if a is empty, and p stays",
        source=_LEMMA,
        rewrite=_into_first_input(_same_on_groups),
    ),
    PushDown[logical.Filter, _Partitioned](
        name="filter_through_partitions",
        moved=logical.Filter,
        through=(logical.TopK, logical.WindowFunctions, logical.Session, logical.RowWindow),
        before="(SELECT *, rank() OVER (PARTITION BY k ORDER BY x) FROM a) WHERE p",
        after="SELECT *, rank() OVER (PARTITION BY k ORDER BY x) FROM (a WHERE p)",
        condition="p is total, reads k alone and is the same on equal k, so that a partition passes or fails as a "
        "whole; any other p would decide which rows are counted. Also for top-k, sessions and row windows of each k",
        source="PIPES definition 8.19",
        rewrite=_into_first_input(_same_on_partitions),
    ),
    PushDown(
        name="filter_through_time_window",
        moved=logical.Filter,
        through=(logical.TimeWindow,),
        before="a [RANGE t] WHERE p",
        after="(a WHERE p) [RANGE t]",
        condition="p is total",
        source="PIPES rule 10.8; CQL section 7.2.2",
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_now_filter",
        moved=logical.Filter,
        through=(logical.NowFilter,),
        before="(a WHERE x <= NOW) WHERE p",
        after="(a WHERE p) WHERE x <= NOW",
        condition="p is total",
        source="PIPES lemma 10.2; SyncSQL section 3.2",
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_unnest",
        moved=logical.Filter,
        through=(logical.Unnest,),
        before="a CROSS JOIN UNNEST(a.xs) AS x WHERE p",
        after="(a WHERE p) CROSS JOIN UNNEST(a.xs) AS x",
        condition="p is total and does not read x",
        source=_LEMMA,
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_assign",
        moved=logical.Filter,
        through=(logical.Assign,),
        before="TUMBLE(a, t) WHERE p; likewise HOP and CUMULATE",
        after="TUMBLE(a WHERE p, t)",
        condition="p is total and reads neither window_start nor window_end",
        source=_LEMMA,
        rewrite=_into_first_input(_reads_first_input),
    ),
    PushDown(
        name="filter_through_set_operation",
        moved=logical.Filter,
        through=(logical.SetOperation,),
        before="(a EXCEPT b) WHERE p; likewise INTERSECT, and both with ALL",
        after="(a WHERE p) EXCEPT (b WHERE p)",
        condition="p is total and the same on equal rows: it keeps or removes all occurrences of a row on both sides",
        source=_LEMMA,
        rewrite=_into_operands,
    ),
)
