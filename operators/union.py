"""Union: A ⊎ B at τ is the rows of A and of B at τ, duplicates kept."""

from __future__ import annotations

from operators.delta import Delta, union_all
from operators.operator import Move, Step


def union(inputs: tuple[Delta, ...], move: Move) -> Step:
    """Linear and stateless: Δ(A ⊎ B) = ΔA ⊎ ΔB. The inputs have one schema.

    >>> one, two = Delta.of([("+", {"a": 1}, 5)]), Delta.of([("+", {"a": 1}, 6), ("-", {"a": 1}, 7)])
    >>> union((one, two), Move(0, 9)).delta.snapshot(8).to_dicts()
    [{'a': 1}]
    """
    return Step(union_all(inputs))
