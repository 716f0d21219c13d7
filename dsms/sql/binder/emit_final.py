"""EMIT FINAL: of the groups of a window the result that stands when the window has ended."""

from __future__ import annotations

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.optimizer.algebra.column_origin import window_of
from dsms.sql.binder.relation import Relation
from dsms.sql.parser.nodes import Emit

_HINT = (
    "group a stream with KEY NULL by window_end of TUMBLE, HOP, CUMULATE or SESSION over DESCRIPTOR(TS);"
    " a relation at points of time is R[Sync](S)"
)


def finals(relation: Relation, query: exp.Expr) -> Relation:
    """The groups of a query, each from the instant on at which it is final, if the query says EMIT FINAL.

    A row of a window over TS comes at its TS and stays, so its group is final at window_end; a session may still get a
    row at its window_end, so its group is final one instant later.
    """
    emit = query.args.get("emit")
    if emit is None:
        return relation
    assert isinstance(emit, Emit)
    if isinstance(group := relation.node, logical.GroupBy):
        for key in group.keys:
            if (window := window_of(group.input, key)) is not None:
                return relation.over(logical.Final(group, key, int(isinstance(window, logical.Session))))
    raise error_at(emit, "EMIT FINAL needs groups that change no more once a window has ended", hint=_HINT)
