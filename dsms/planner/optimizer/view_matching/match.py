"""Rewrites a plan, or parts of it, so that plans that contain its rows compute it (SyncSQL section 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.kept_state import with_own_state
from dsms.model.properties import inputs, walk
from dsms.model.replace_inputs import with_inputs
from dsms.planner.optimizer.algebra.arrival_order import depends_on_arrival, ranks_by_values
from dsms.planner.optimizer.algebra.conjuncts import conjunction
from dsms.planner.optimizer.algebra.split import filtered
from dsms.planner.optimizer.optimize import preserves_properties
from dsms.planner.optimizer.rules.remove_no_ops import remove_identity_project
from dsms.planner.optimizer.rules.synchronisation import is_subset
from dsms.planner.optimizer.view_matching.canonical_form import CanonicalForm, canonical_form, digest
from dsms.planner.optimizer.view_matching.core_columns import all_over, output_columns
from dsms.planner.optimizer.view_matching.first_ranks import first_of
from dsms.planner.optimizer.view_matching.implication import remaining
from dsms.planner.optimizer.view_matching.roll_up import roll_up


@dataclass(frozen=True)
class Rewrite:
    """A rewritten plan, and the indices of the views from which it is computed."""

    node: logical.Node
    views: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Candidate:
    """A part of a view's plan."""

    view: int
    node: logical.Node

    @cached_property
    def canonical_form(self) -> CanonicalForm:
        return canonical_form(self.node)


def match_digests(node: logical.Node) -> frozenset[str]:
    """Digests of the data of a plan's stateful parts. If two plans have no digest in common, neither can be computed
    from the other."""
    parts = list(_stateful_parts(node))
    groups = (part for part in parts if isinstance(part, logical.GroupBy))
    grouped = [digest("groups", canonical_form(group.input).data) for group in groups]
    return frozenset([*grouped, *(canonical_form(part).data for part in parts)])


def computed_from_views(node: logical.Node, views: Sequence[logical.Node]) -> Rewrite:
    """The optimised plan, rewritten over parts of the plans of `views`, whose operators it then shares. The plans of
    `views` must be optimised too.

    The relation is the same at every instant. The order of records of one instant may differ from that of the original
    plan. Therefore nothing is matched below a node that depends on the order of rows. Such a node itself is matched,
    because its core contains the order in which its rows arrive.
    """
    candidates = [_Candidate(at, part) for at, view in enumerate(views) for part in _stateful_parts(view)]
    candidates.sort(key=lambda candidate: -len(candidate.canonical_form.conditions))
    shared = frozenset(fingerprint(part) for view in views for part in with_own_state(view))
    known = _Views(candidates, shared, _sessions_of_groups(node))
    return _rewrite(node, known) if candidates else Rewrite(node)


@dataclass(frozen=True)
class _Views:
    """The candidates, the fingerprints of the nodes with state that they share with equal nodes anyway, and the ids of
    the nodes of the plan that are not matched."""

    candidates: Sequence[_Candidate]
    shared: AbstractSet[str]
    unmatched: AbstractSet[int]


def _stateful_parts(node: logical.Node) -> Iterator[logical.Node]:
    """The parts of a plan that hold state and have an operator of their own; sharing them saves the state."""
    merged = _sessions_of_groups(node)
    return (part for part in walk(node) if id(part) not in merged and with_own_state(part))


def _sessions_of_groups(node: logical.Node) -> frozenset[int]:
    """The ids of the sessions right below a group-by, and of the projections between them: usually one operator
    computes the groups and the sessions, and does not hold the rows with their sessions."""
    merged = set[int]()
    for group in walk(node):
        match group:
            case logical.GroupBy(input=logical.Session() as session):
                merged.add(id(session))
            case logical.GroupBy(input=logical.Project(input=logical.Session() as session) as project):
                merged |= {id(session), id(project)}
    return frozenset(merged)


def _rewrite(node: logical.Node, views: _Views) -> Rewrite:
    """The node, computed from candidates. It stays as it is if the views have all its nodes with state."""
    if all(fingerprint(part) in views.shared for part in with_own_state(node)):
        return Rewrite(node)
    matched = None if id(node) in views.unmatched else _over_first_match(node, views.candidates)
    if matched is not None:
        return matched
    if depends_on_arrival(node) and not ranks_by_values(node):
        return Rewrite(node)
    below = [_rewrite(input_, views) for input_ in inputs(node)]
    over = with_inputs(node, tuple(rewrite.node for rewrite in below))
    return Rewrite(over, frozenset().union(*(rewrite.views for rewrite in below)))


def _over_first_match(node: logical.Node, candidates: Sequence[_Candidate]) -> Rewrite | None:
    """The node over the first candidate that contains it. Candidates with the most conditions come first, because they
    have the fewest rows."""
    wanted = canonical_form(node)
    for candidate in candidates:
        plan = _over_candidate(node, wanted, candidate)
        if plan is not None and preserves_properties(node, plan):
            return Rewrite(plan, frozenset({candidate.view}))
    return None


def _over_candidate(node: logical.Node, wanted: CanonicalForm, candidate: _Candidate) -> logical.Node | None:
    if wanted.cores == candidate.canonical_form.cores:
        return _selection(wanted, candidate) or first_of(node, wanted, candidate.node, candidate.canonical_form)
    if isinstance(node, logical.GroupBy) and isinstance(candidate.node, logical.GroupBy):
        return roll_up(node, candidate.node)
    return None


def _selection(wanted: CanonicalForm, candidate: _Candidate) -> logical.Node | None:
    """The wanted plan as a filter with the remaining conditions and a projection over a candidate with the same core,
    at the wanted points; None if the candidate lacks rows, columns or points."""
    available = candidate.canonical_form
    rest = remaining(wanted.conditions, available.conditions)
    columns = output_columns(available.outputs)
    outputs = all_over(list(wanted.outputs.values()), columns)
    conditions = None if rest is None else all_over(sorted(rest, key=fingerprint), columns)
    if outputs is None or conditions is None:
        return None
    rows = _at_points(filtered(candidate.node, conjunction(conditions)), wanted, available)
    if rows is None:
        return None
    project = logical.Project(rows, tuple(zip(wanted.outputs, outputs, strict=True)))
    return remove_identity_project(project) or project


def _at_points(rows: logical.Node, wanted: CanonicalForm, available: CanonicalForm) -> logical.Node | None:
    """Synchronises rows, which change only at the points of `available`, at the points of `wanted`; None if `available`
    lacks some of these.
    """
    if fingerprint(wanted.points) == fingerprint(available.points):
        return rows
    if wanted.points is None or (available.points is not None and not is_subset(wanted.points, available.points)):
        return None
    return logical.Sync(rows, wanted.points)
