"""Binds EMIT FINAL: it publishes the results of a window's groups once, when the window has ended."""

from __future__ import annotations

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.planner.optimizer.algebra.column_origin import window_of
from dsms.sql.binder.relation import Relation
from dsms.sql.parser.nodes import Emit

_HINT = (
    "group a stream with KEY NULL by window_end of TUMBLE, HOP, CUMULATE or SESSION over DESCRIPTOR(TS);"
    " for a relation at points of time use R[Sync](S)"
)


def with_final_groups(relation: Relation, query: exp.Expr) -> Relation:
    """The groups of a query with EMIT FINAL, each from the instant at which it is final. Raises SqlError for groups
    that are never final.

    A row of a window over TS arrives at its TS and stays, so its group is final at window_end. A session may still get
    a row at its window_end, so its group is final one instant later.
    """
    emit = query.args.get("emit")
    if emit is None:
        return relation
    assert isinstance(emit, Emit)
    if isinstance(group := relation.node, logical.GroupBy):
        for key in group.keys:
            if (window := window_of(group.input, key)) is not None:
                return relation.over(logical.Final(group, key, int(isinstance(window, logical.Session))))
    raise error_at(emit, "EMIT FINAL needs groups that are final when their window ends", hint=_HINT)
