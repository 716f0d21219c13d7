"""The rewrite rules: each gives an equal plan, or None where it does not apply.

Equal means the same relation at every instant, with the same columns. What is reported may differ: a row in fault that
another condition removes first is not reported.
"""

from __future__ import annotations

from collections.abc import Callable

from dsms.model import logical
from dsms.optimizer.rules.bound_group import bound_group
from dsms.optimizer.rules.distinct_of_keyed import distinct_of_keyed
from dsms.optimizer.rules.equality_to_key import equality_to_key
from dsms.optimizer.rules.extreme_to_rank import extreme_to_rank
from dsms.optimizer.rules.filter_through_asof_join import filter_through_asof_join
from dsms.optimizer.rules.filter_through_assign import filter_through_assign
from dsms.optimizer.rules.filter_through_distinct import filter_through_distinct
from dsms.optimizer.rules.filter_through_group_by import filter_through_group_by
from dsms.optimizer.rules.filter_through_join import filter_through_join
from dsms.optimizer.rules.filter_through_now_filter import filter_through_now_filter
from dsms.optimizer.rules.filter_through_partitions import filter_through_partitions
from dsms.optimizer.rules.filter_through_project import filter_through_project
from dsms.optimizer.rules.filter_through_semi_join import filter_through_semi_join
from dsms.optimizer.rules.filter_through_set_operation import filter_through_set_operation
from dsms.optimizer.rules.filter_through_time_window import filter_through_time_window
from dsms.optimizer.rules.filter_through_union import filter_through_union
from dsms.optimizer.rules.filter_through_unnest import filter_through_unnest
from dsms.optimizer.rules.fold_constants import fold_constants
from dsms.optimizer.rules.join_order import join_order
from dsms.optimizer.rules.merge_filters import merge_filters
from dsms.optimizer.rules.merge_projects import merge_projects
from dsms.optimizer.rules.now_filter_below import now_filter_below
from dsms.optimizer.rules.order_conjuncts import order_conjuncts
from dsms.optimizer.rules.project_through_row_window import project_through_row_window
from dsms.optimizer.rules.project_through_time_window import project_through_time_window
from dsms.optimizer.rules.prune_columns import prune_columns
from dsms.optimizer.rules.remove_identity_project import remove_identity_project
from dsms.optimizer.rules.remove_unbounded_window import remove_unbounded_window
from dsms.optimizer.rules.residual_through_join import residual_through_join
from dsms.optimizer.rules.semi_join_of_distinct import semi_join_of_distinct
from dsms.optimizer.rules.semi_join_to_join import semi_join_to_join
from dsms.optimizer.rules.stream_of_now_window import stream_of_now_window
from dsms.optimizer.rules.stream_of_stream import stream_of_stream
from dsms.optimizer.rules.sync_above import sync_above
from dsms.optimizer.rules.sync_below import sync_below
from dsms.optimizer.rules.sync_of_sync import sync_of_sync
from dsms.optimizer.rules.union_of_windows import union_of_windows

Rule = Callable[[logical.Node], logical.Node | None]

#: Applied to every node, inputs first, until none applies.
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
    filter_through_join,
    filter_through_project,
    filter_through_union,
    filter_through_distinct,
    filter_through_semi_join,
    filter_through_asof_join,
    filter_through_group_by,
    filter_through_partitions,
    filter_through_time_window,
    filter_through_now_filter,
    filter_through_unnest,
    filter_through_assign,
    filter_through_set_operation,
    now_filter_below,
    project_through_time_window,
    project_through_row_window,
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
#: Rules that give the same relation of rows that may have come in another order: not below what tells their age.
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
