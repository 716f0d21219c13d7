"""Synchronisation above filters, projections and unions."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.optimizer.rules.conjuncts import total


def sync_above(node: logical.Node) -> logical.Node | None:
    """Θ(ℜ_Sync(A)) = ℜ_Sync(Θ(A)) for σ_p and π_f that are total, and ℜ_Sync(A) ⊎ ℜ_Sync(B) = ℜ_Sync(A ⊎ B).

    One regulator stands for several with equal points, and sees fewer and smaller rows. Total, because Θ would see rows
    that no point sees. SyncSQL corollaries 2 and 3.
    """
    match node:
        case logical.Filter(logical.Sync(below, points), predicate) if total(predicate):
            return logical.Sync(logical.Filter(below, predicate), points)
        case logical.Project(logical.Sync(below, points), outputs) if all(total(one) for _, one in outputs):
            return logical.Sync(logical.Project(below, outputs), points)
        case logical.Union(parts):
            return _one_regulator([one for one in parts if isinstance(one, logical.Sync)], len(parts))
    return None


def _one_regulator(parts: list[logical.Sync], every: int) -> logical.Node | None:
    if len(parts) != every or len({fingerprint(one.points) for one in parts}) != 1:
        return None
    return logical.Sync(logical.Union(tuple(one.input for one in parts)), parts[0].points)
