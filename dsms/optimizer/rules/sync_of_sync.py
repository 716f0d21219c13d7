"""Synchronisation of what is synchronised."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from operators.sync.sync_points import Periodic

_MOST = 100_000


def sync_of_sync(node: logical.Node) -> logical.Node | None:
    """ℜ_i(ℜ_j(A)) = ℜ_i(A), if the points of i are points of j. SyncSQL corollary 1."""
    match node:
        case logical.Sync(logical.Sync(below, finer), points) if among(points, finer):
            return logical.Sync(below, points)
    return None


def among(points: Periodic | logical.Node, finer: Periodic | logical.Node) -> bool:
    """Whether all of `points` are known to be among `finer`; common periods that are very long are not looked at."""
    if not isinstance(points, Periodic) or not isinstance(finer, Periodic):
        return fingerprint(points) == fingerprint(finer)
    if len(points.residues) * finer.period > _MOST:
        return False
    reached = (residue + turn * points.period for residue in points.residues for turn in range(finer.period))
    return {one % finer.period for one in reached} <= set(finer.residues)
