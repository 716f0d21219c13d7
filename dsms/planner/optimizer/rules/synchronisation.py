"""Rules that merge synchronisations, and move them above or below other operators."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.planner.optimizer.algebra.arrival_order import aggregates_depend_on_arrival
from dsms.planner.optimizer.algebra.conjuncts import total
from operators.sync.sync_points import Periodic

#: Periodic points are not compared if their common period has more points than this.
_MAX_POINTS = 100_000


def sync_of_sync(node: logical.Node) -> logical.Node | None:
    """ℜ_i(ℜ_j(A)) = ℜ_i(A), if every point of i is a point of j. SyncSQL corollary 1."""
    match node:
        case logical.Sync(logical.Sync(below, finer), points) if is_subset(points, finer):
            return logical.Sync(below, points)
    return None


def is_subset(points: Periodic | logical.Node, finer: Periodic | logical.Node) -> bool:
    """Whether all `points` are also points of `finer`; False if this is unknown, as for very long periods."""
    if not isinstance(points, Periodic) or not isinstance(finer, Periodic):
        return fingerprint(points) == fingerprint(finer)
    if len(points.residues) * finer.period > _MAX_POINTS:
        return False
    # Modulo the finer period p, the points repeat after p of their own periods. For example, the points of period 4
    # with residue 1 are 1, 5, 9, 13, 17, 21, …; modulo 6 they are 1, 5, 3 and again 1, 5, 3.
    reached = (residue + turn * points.period for residue in points.residues for turn in range(finer.period))
    return {point % finer.period for point in reached} <= set(finer.residues)


def sync_above(node: logical.Node) -> logical.Node | None:
    """Θ(ℜ_Sync(A)) = ℜ_Sync(Θ(A)) for σ_p and π_f that are total, and ℜ_Sync(A) ⊎ ℜ_Sync(B) = ℜ_Sync(A ⊎ B).

    One regulator (the operator of ℜ_Sync) replaces several with equal points, and gets fewer and smaller rows. Θ must
    be total, because it is also evaluated on rows that exist only between points. SyncSQL corollaries 2 and 3.
    """
    match node:
        case logical.Filter(logical.Sync(below, points), predicate) if total(predicate):
            return logical.Sync(logical.Filter(below, predicate), points)
        case logical.Project(logical.Sync(below, points)) if _all_total(node):
            return logical.Sync(replace(node, input=below), points)
        case logical.Union(branches):
            regulators = [branch for branch in branches if isinstance(branch, logical.Sync)]
            return _one_regulator(regulators) if len(regulators) == len(branches) else None
    return None


def _one_regulator(regulators: list[logical.Sync]) -> logical.Node | None:
    if len({fingerprint(regulator.points) for regulator in regulators}) != 1:
        return None
    return logical.Sync(logical.Union(tuple(regulator.input for regulator in regulators)), regulators[0].points)


def sync_below(node: logical.Node) -> logical.Node | None:
    """ℜ_Sync(Θ(A)) = Θ(ℜ_Sync(A)) for γ_K, δ and ⋈, also across total σ and π in between.

    Then Θ works once for each point, because the changes between two points are consolidated before it. γ needs keys,
    because without keys it has a row even before the first point. The rule does not apply if Θ depends on when or in
    what order rows arrived, as sums of floats do, or if a group is bounded in time. SyncSQL corollaries 2 and 3, from
    right to left.
    """
    return _push(node, node.input) if isinstance(node, logical.Sync) else None


def _push(sync: logical.Sync, node: logical.Node) -> logical.Node | None:
    """The node with the synchronisation moved below it, or, for σ and π, below the operator under it; None if that is
    not possible."""
    match node:
        case logical.Filter(below, predicate) if total(predicate):
            return _over(node, _push(sync, below))
        case logical.Project(below) if _all_total(node):
            return _over(node, _push(sync, below))
        case logical.GroupBy(keys=keys, bound=None) if keys and not aggregates_depend_on_arrival(node):
            return replace(node, input=replace(sync, input=node.input))
        case logical.Distinct(below):
            return replace(node, input=replace(sync, input=below))
        case logical.Join(outer="none", residual=residual) if residual is None or total(residual):
            return replace(node, left=replace(sync, input=node.left), right=replace(sync, input=node.right))
    return None


def _over(node: logical.Filter | logical.Project, below: logical.Node | None) -> logical.Node | None:
    return None if below is None else replace(node, input=below)


def _all_total(node: logical.Project) -> bool:
    return all(total(output) for _, output in node.outputs)
