"""Binds CQL's relation-to-stream operators: Istream, Dstream, Rstream."""

from __future__ import annotations

from functools import reduce
from typing import Literal, cast

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.properties import append_only, inputs, sources
from dsms.sql.binder.relation import Context, Relation, bind_relation
from dsms.sql.parser.nodes import StreamOf
from operators.sync.sync_points import Periodic

_PIPES_HINT = "use Istream(…) around its select list for the rows that enter, or Rstream(…) over R[Sync](…)"
_NO_DEFAULT_HINT = "use Istream(…), Dstream(…) or Rstream(…) around its select list"
_RSTREAM_HINT = "add [Now] to a stream of FROM, [… Slide n] to its windows, or read R[Sync](…) at the points of a clock"


def bind_stream(node: exp.Expr, context: Context) -> Relation:
    """The rows that enter or leave a relation, or all of them, as an append-only stream.

    Rstream returns the whole relation at each instant. That is finite only if every row lives for one instant ([Now])
    or if the relation is read at points. Raises SqlError otherwise.
    """
    assert isinstance(node, StreamOf)
    relation = bind_relation(node.this, context)
    kind = cast(Literal["istream", "dstream", "rstream"], node.args["kind"])
    points = _points(relation.node, node) if kind == "rstream" else None
    return relation.over(logical.ToStream(relation.node, kind, points))


def as_stream(node: logical.Node, at: exp.Expr) -> logical.Node:
    """The stream to which a window is applied: an append-only relation itself; of any other relation, the rows that
    enter it (CQL) or that it contains at each instant (PIPES). Raises SqlError for

    - a CQL window over a subquery that loses rows, for which CQL has no default (section 6.2.2), and
    - a PIPES window over rows that live for more than one instant: PIPES counts every instant at which a row is valid.
    """
    if append_only(node):
        return node
    if at.args["notation"] == "pipes":
        if not lives_one_instant(node):
            raise error_at(
                at,
                "WINDOW counts a row at each instant at which it is valid, but these rows are valid for more than one",
                hint=_PIPES_HINT,
            )
        return logical.ToStream(node, "rstream")
    if isinstance(at.this, exp.Subquery):
        raise error_at(
            at, "rows can leave the subquery, so CQL defines no default stream for its window", hint=_NO_DEFAULT_HINT
        )
    return logical.ToStream(node, "istream")


def _points(node: logical.Node, at: exp.Expr) -> Periodic | None:
    """The points of Rstream; None if every row of the relation lives for one instant."""
    if lives_one_instant(node):
        return None
    points = points_of(node)
    if points is None:
        raise error_at(at, "Rstream would return the whole relation at every instant", hint=_RSTREAM_HINT)
    return points


def lives_one_instant(node: logical.Node) -> bool:
    """Whether every row of the relation at τ comes from rows of a stream at τ, so that no row lasts to the next
    instant."""
    match node:
        case logical.TimeWindow():
            return node.length == 0 and node.slide == 1
        case logical.Join():
            sides = (lives_one_instant(node.left), lives_one_instant(node.right))
            return {"none": any(sides), "left": sides[0], "right": sides[1], "full": all(sides)}[node.outer]
        case logical.SetOperation():
            left = lives_one_instant(node.left)
            return left or (node.kind.startswith("intersect") and lives_one_instant(node.right))
        case logical.SemiJoin() | logical.AsofJoin():
            return lives_one_instant(node.left)
        case logical.Union() | logical.Recursion():
            return all(lives_one_instant(branch) for branch in node.inputs)
        case logical.GroupBy():
            # without keys there is a row even for the empty relation
            return bool(node.keys) and lives_one_instant(node.input)
        case (
            logical.StreamScan()
            | logical.Values()
            | logical.Recurrence()
            | logical.ToStream()
            | logical.Sync()
            | logical.RowWindow()
            | logical.Final()
        ):
            return False
        case _:
            return lives_one_instant(node.input)


def points_of(node: logical.Node) -> Periodic | None:
    """The points outside of which a relation never changes; None if no such points are known."""
    if isinstance(node, logical.Sync):
        return node.points if isinstance(node.points, Periodic) else None
    if isinstance(node, logical.TimeWindow) and node.slide > 1:
        return Periodic(node.slide)
    if isinstance(node, logical.TimeWindow | logical.RowWindow | logical.NowFilter | logical.ToStream | logical.Final):
        return None
    below = [branch for branch in inputs(node) if sources(branch)]  # a plan without streams never changes
    known = [points_of(branch) for branch in below]
    changing = [points for points in known if points is not None]
    return reduce(lambda left, right: left | right, changing) if changing and len(changing) == len(below) else None
