"""Rewrite rules that move a node below its input. They are described as data and listed in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dsms.model import logical

_Moved = TypeVar("_Moved", logical.Filter, logical.Project)
_Passed = TypeVar("_Passed", bound=logical.Node)


@dataclass(frozen=True, eq=False, kw_only=True)
class PushDown(Generic[_Moved, _Passed]):
    """A rule that moves a node of class `moved` below its input, which is of one of the classes `through`.

    If `condition` holds, the plan `before` equals the plan `after`; both texts are written like SQL. `source` cites the
    paper with the proof. Calling the rule with a plan returns the rewritten plan, or None if the rule does not apply.
    """

    name: str
    moved: type[_Moved]
    through: tuple[type[_Passed], ...]
    before: str
    after: str
    condition: str
    source: str
    rewrite: Callable[[_Moved, _Passed], logical.Node | None]

    @property
    def __name__(self) -> str:
        """The name of the rule, under the attribute that functions have."""
        return self.name

    def __call__(self, node: logical.Node) -> logical.Node | None:
        if isinstance(node, self.moved) and isinstance(node.input, self.through):
            return self.rewrite(node, node.input)
        return None
