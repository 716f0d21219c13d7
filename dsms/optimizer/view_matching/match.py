"""Answering a plan, or parts of it, over plans that contain it (SyncSQL section 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import inputs, walk
from dsms.model.rebuild import with_inputs
from dsms.optimizer.algebra.arrival_order import depends_on_arrival
from dsms.optimizer.algebra.conjuncts import conjunction
from dsms.optimizer.algebra.split import filtered
from dsms.optimizer.optimize import as_good
from dsms.optimizer.rules.remove_no_ops import remove_identity_project
from dsms.optimizer.rules.synchronisation import is_subset
from dsms.optimizer.view_matching.core_columns import all_over, given
from dsms.optimizer.view_matching.remaining_conditions import remaining
from dsms.optimizer.view_matching.roll_up import rolled_up
from dsms.optimizer.view_matching.skinned_form import SkinnedForm, digest, skinned_form

_STATEFUL = (logical.Join, logical.SemiJoin, logical.GroupBy, logical.Distinct, logical.Sync)


@dataclass(frozen=True)
class Answer:
    """A plan, and the views it was answered over, by their places."""

    node: logical.Node
    views: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Candidate:
    """A part of a view's plan."""

    view: int
    node: logical.Node

    @cached_property
    def skinned_form(self) -> SkinnedForm:
        return skinned_form(self.node)


def marks(node: logical.Node) -> frozenset[str]:
    """Names of what a plan could be answered over, or others over it: two plans without a common one do not match."""
    parts = list(_worthwhile(node))
    groups = [digest("groups", skinned_form(one.input).data) for one in parts if isinstance(one, logical.GroupBy)]
    return frozenset([*groups, *(skinned_form(one).data for one in parts)])


def answered_over(node: logical.Node, views: Sequence[logical.Node]) -> Answer:
    """The plan over parts of the plans of `views`, which are optimised as it is: it then shares their operators.

    The relation is the same at every instant. Records of one instant may come in another order, which is fixed when the
    query is registered: so nothing is matched below what depends on the order of rows.
    """
    candidates = [_Candidate(at, part) for at, view in enumerate(views) for part in _worthwhile(view)]
    candidates.sort(key=lambda one: -len(one.skinned_form.conditions))
    return _answered(node, candidates) if candidates else Answer(node)


def _worthwhile(node: logical.Node) -> Iterator[logical.Node]:
    """The parts of a plan that hold state, which is what sharing saves."""
    return (part for part in walk(node) if any(isinstance(one, _STATEFUL) for one in walk(part)))


def _answered(node: logical.Node, candidates: Sequence[_Candidate]) -> Answer:
    if depends_on_arrival(node) or any(node == one.node for one in candidates):
        return Answer(node)
    found = _best(node, candidates)
    if found is not None:
        return found
    below = [_answered(one, candidates) for one in inputs(node)]
    over = with_inputs(node, tuple(one.node for one in below))
    return Answer(over, frozenset().union(*(one.views for one in below)))


def _best(node: logical.Node, candidates: Sequence[_Candidate]) -> Answer | None:
    """Over the first part that contains it: those with the most conditions, which have the fewest rows, come first."""
    asked = skinned_form(node)
    for one in candidates:
        found = _contained(node, asked, one)
        if found is not None and as_good(node, found):
            return Answer(found, frozenset({one.view}))
    return None


def _contained(node: logical.Node, asked: SkinnedForm, candidate: _Candidate) -> logical.Node | None:
    if asked.cores == candidate.skinned_form.cores:
        return _selected(asked, candidate)
    if isinstance(node, logical.GroupBy) and isinstance(candidate.node, logical.GroupBy):
        return rolled_up(node, candidate.node)
    return None


def _selected(asked: SkinnedForm, candidate: _Candidate) -> logical.Node | None:
    """Data: the conditions that are left, over the columns that are there. Time: at fewer points."""
    held = candidate.skinned_form
    left = remaining(asked.conditions, held.conditions)
    columns = given(held.outputs)
    outputs = all_over(list(asked.outputs.values()), columns)
    conditions = None if left is None else all_over(sorted(left, key=fingerprint), columns)
    if outputs is None or conditions is None:
        return None
    rows = _at_points(filtered(candidate.node, conjunction(conditions)), asked, held)
    if rows is None:
        return None
    found = logical.Project(rows, tuple(zip(asked.outputs, outputs, strict=True)))
    return remove_identity_project(found) or found


def _at_points(rows: logical.Node, asked: SkinnedForm, held: SkinnedForm) -> logical.Node | None:
    if fingerprint(asked.points) == fingerprint(held.points):
        return rows
    if asked.points is None or (held.points is not None and not is_subset(asked.points, held.points)):
        return None
    return logical.Sync(rows, asked.points)
