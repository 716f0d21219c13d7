"""Synchronisation below grouping, duplicate elimination and joins."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import total
from dsms.optimizer.rules.order_sensitive import order_sensitive
from operators.expressions import Expression


def sync_below(node: logical.Node) -> logical.Node | None:
    """ℜ_Sync(Θ(A)) = Θ(ℜ_Sync(A)) for γ_K, δ and ⋈, through the σ and π in between, if they are total.

    Θ then works once a point: the changes between two points collapse before it. γ needs keys: without any there is a
    row even before the first point. Not where Θ depends on when or in what order rows came, as float sums do, and not
    where a group is bounded in time. SyncSQL corollaries 2 and 3, from right to left.
    """
    return _into(node.input, node) if isinstance(node, logical.Sync) else None


def _into(found: logical.Node, sync: logical.Sync) -> logical.Node | None:
    match found:
        case logical.Filter(below, predicate) if total(predicate):
            return _over(found, _into(below, sync))
        case logical.Project(below, outputs) if all(_total(outputs)):
            return _over(found, _into(below, sync))
        case logical.GroupBy(keys=keys, bound=None) if keys and not order_sensitive(found):
            return replace(found, input=replace(sync, input=found.input))
        case logical.Distinct(below):
            return replace(found, input=replace(sync, input=below))
        case logical.Join(outer="none", residual=residual) if residual is None or total(residual):
            return replace(found, left=replace(sync, input=found.left), right=replace(sync, input=found.right))
    return None


def _over(node: logical.Filter | logical.Project, below: logical.Node | None) -> logical.Node | None:
    return None if below is None else replace(node, input=below)


def _total(outputs: tuple[tuple[str, Expression], ...]) -> list[bool]:
    return [total(one) for _, one in outputs]
