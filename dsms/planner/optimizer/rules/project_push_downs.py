"""Push-downs of projections: a table of the nodes below which a projection can be moved.

In the texts of the table, a is a relation, f the outputs of the projection and k columns. f is total if it has values
on every row (`conjuncts.total`).
"""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.push_down import PushDown
from operators.expressions import Column


def _below_time_window(node: logical.Project, window: logical.TimeWindow) -> logical.Node | None:
    if not _all_total(node):
        return None
    return replace(window, input=logical.Project(window.input, node.outputs))


def _below_row_window(node: logical.Project, window: logical.RowWindow) -> logical.Node | None:
    new_names = {output.name: name for name, output in reversed(node.outputs) if isinstance(output, Column)}
    if not _all_total(node) or not set(window.partition) <= set(new_names):
        return None
    partition = tuple(new_names[name] for name in window.partition)
    return replace(window, input=logical.Project(window.input, node.outputs), partition=partition)


def _all_total(node: logical.Project) -> bool:
    return all(total(output) for _, output in node.outputs)


PROJECT_PUSH_DOWNS = (
    PushDown(
        name="project_through_time_window",
        moved=logical.Project,
        through=(logical.TimeWindow,),
        before="SELECT f FROM a [RANGE t]",
        after="(SELECT f FROM a) [RANGE t]",
        condition="f is total: with a slide the window drops rows, and above it f is not evaluated on them",
        source="PIPES rule 10.9",
        rewrite=_below_time_window,
    ),
    PushDown(
        name="project_through_row_window",
        moved=logical.Project,
        through=(logical.RowWindow,),
        before="SELECT f FROM a [PARTITION BY k ROWS n]",
        after="(SELECT f FROM a) [PARTITION BY k ROWS n]",
        condition="f keeps each column of k and is total: a row in fault below the window would not be counted",
        source="PIPES rules 10.11 and 10.12",
        rewrite=_below_row_window,
    ),
)
