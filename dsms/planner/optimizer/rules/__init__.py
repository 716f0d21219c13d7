"""Lists the rewrite rules. Each rule returns an equal plan, or None if it does not apply.

Equal plans have the same columns and the same relation at every instant. Reported faults may differ: a row on which an
expression has no value is not reported if another condition removes it first.

A rule is a function, or a row of a table of push-downs; EXPLAIN prints its name. A new rule needs a file or a row, an
entry in RULES, and a file of cases, `tests/golden/rules/<rule>.sql`.
"""

from __future__ import annotations

from collections.abc import Callable

from dsms.model import logical
from dsms.planner.optimizer.rules.bound_group import bound_group
from dsms.planner.optimizer.rules.extreme_to_rank import extreme_to_rank
from dsms.planner.optimizer.rules.filter_push_downs import FILTER_PUSH_DOWNS
from dsms.planner.optimizer.rules.fold_constants import fold_constants
from dsms.planner.optimizer.rules.join_conditions import equality_to_key, residual_through_join
from dsms.planner.optimizer.rules.join_order import join_order
from dsms.planner.optimizer.rules.merge import merge_filters, merge_projects, union_of_windows
from dsms.planner.optimizer.rules.now_filter_below import now_filter_below
from dsms.planner.optimizer.rules.order_conjuncts import order_conjuncts
from dsms.planner.optimizer.rules.project_push_downs import PROJECT_PUSH_DOWNS
from dsms.planner.optimizer.rules.prune_columns import prune_columns
from dsms.planner.optimizer.rules.remove_no_ops import (
    distinct_of_keyed,
    remove_identity_project,
    remove_unbounded_window,
)
from dsms.planner.optimizer.rules.semi_joins import semi_join_of_distinct, semi_join_to_join
from dsms.planner.optimizer.rules.streams_of_relations import stream_of_now_window, stream_of_stream
from dsms.planner.optimizer.rules.synchronisation import sync_above, sync_below, sync_of_sync

Rule = Callable[[logical.Node], logical.Node | None]

#: The rules for single nodes. They are applied to every node, inputs first, until none applies.
RULES: tuple[Rule, ...] = (
    stream_of_now_window,
    stream_of_stream,
    remove_unbounded_window,
    distinct_of_keyed,
    semi_join_of_distinct,
    merge_filters,
    merge_projects,
    remove_identity_project,
    equality_to_key,
    residual_through_join,
    *FILTER_PUSH_DOWNS,
    now_filter_below,
    *PROJECT_PUSH_DOWNS,
    union_of_windows,
    semi_join_to_join,
    extreme_to_rank,
    join_order,
    sync_of_sync,
    sync_above,
    sync_below,
    bound_group,
    fold_constants,
    order_conjuncts,
)
#: Applied to the whole plan between rounds of RULES.
WHOLE_PLAN_RULES: tuple[Rule, ...] = (prune_columns,)
#: Rules that may change the order of rows. They are not applied below nodes whose result depends on that order.
REORDERING: frozenset[Rule] = frozenset(
    {
        join_order,
        distinct_of_keyed,
        semi_join_of_distinct,
        semi_join_to_join,
        extreme_to_rank,
        sync_above,
        sync_below,
        sync_of_sync,
    }
)

__all__ = ["REORDERING", "RULES", "WHOLE_PLAN_RULES", "Rule"]
