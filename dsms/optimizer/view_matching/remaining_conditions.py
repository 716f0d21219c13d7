"""What is left to ask of rows that satisfy some conditions already."""

from __future__ import annotations

from dsms.optimizer.view_matching.implication import implies
from dsms.optimizer.view_matching.skinned_form import Conditions


def remaining(wanted: Conditions, held: Conditions) -> Conditions | None:
    """The conditions that are still to be asked; None where rows that are wanted may be missing."""
    if not all(implies(wanted, one) for one in held):
        return None
    return frozenset(one for one in wanted if not implies(held, one))
