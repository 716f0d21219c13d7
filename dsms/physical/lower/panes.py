"""Where rows are added up by panes: below windows whose rows are only counted."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.schema import schema
from dsms.optimizer.rules.identity import kept, renamed
from operators.expressions import columns
from operators.windows.panes import Panes


def panes(node: logical.GroupBy) -> tuple[logical.Project, logical.Assign, Panes] | None:
    """π(assign(A)) of γ, with only the columns of A that are read, and what stands on A, if γ counts rows that only
    come, and π renames all but the time.

    Only where A is synchronised: there many rows have one instant, and no order of theirs shows but the greatest.
    """
    match node.input:
        case logical.Project(logical.Assign(input=below) as assign) as project if _counts(node) and renamed(project):
            read = {one for _, output in project.outputs for one in columns(output)}
            time = schema(below).field(assign.column).type
            if assign.column in read or not pa.types.is_timestamp(time) or not properties.synchronised(below):
                return None
            narrow = replace(assign, input=kept(below, {assign.column, *read}))
            return project, narrow, Panes(assign.column, gcd(assign.size, assign.slide), assign.offset)
    return None


def _counts(node: logical.GroupBy) -> bool:
    plain = all(
        one.function == "count" and not one.arguments and one.filter is None and not one.distinct
        for one in node.aggregates
    )
    return plain and bool(node.keys) and properties.append_only(node.input)
