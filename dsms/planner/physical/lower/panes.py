"""Decides where rows of the same pane are merged into one, before a row is copied for each of its windows."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import computes_nothing, keep_columns
from operators.expressions import columns
from operators.windows.panes import Panes


def panes(node: logical.GroupBy) -> tuple[logical.Project, logical.Assign, Panes] | None:
    """The π and the assignment of windows below γ, with only the columns that are read, and the operator that merges
    the rows of a pane. None unless γ only counts rows that never leave, and π only renames columns and drops the time.

    It is used only if the input is synchronised. Then many rows have the same instant, and only the greatest of their
    orders affects the result.
    """
    match node.input:
        case logical.Project(logical.Assign(input=below) as assign) as project:
            if not _only_counts(node) or not computes_nothing(project):
                return None
            read = {name for _, output in project.outputs for name in columns(output)}
            time = schema(below).field(assign.column).type
            if assign.column in read or not pa.types.is_timestamp(time) or not properties.synchronised(below):
                return None
            narrow = replace(assign, input=keep_columns(below, {assign.column, *read}))
            return project, narrow, Panes(assign.column, gcd(assign.size, assign.slide), assign.offset)
    return None


def _only_counts(node: logical.GroupBy) -> bool:
    """Whether all aggregates are COUNT(*), over the groups of some keys, of rows that never leave."""
    plain = all(
        aggregate.function == "count"
        and not aggregate.arguments
        and aggregate.filter is None
        and not aggregate.distinct
        for aggregate in node.aggregates
    )
    return plain and bool(node.keys) and properties.append_only(node.input)
