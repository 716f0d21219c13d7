"""A rule that moves a node below the node that it stands on, as a row of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dsms.model import logical

_Moved = TypeVar("_Moved", logical.Filter, logical.Project)
_Passed = TypeVar("_Passed", bound=logical.Node)


@dataclass(frozen=True, eq=False, kw_only=True)
class PushDown(Generic[_Moved, _Passed]):
    """A rule that moves a node below an input of one of the classes `through`. Under the condition, the plan `before`
    equals the plan `after`, both written like SQL; `source` is the paper that has the law.

    Called with a plan it returns the plan after, or None where it does not apply.
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
        """The name of the rule, which functions have by themselves."""
        return self.name

    def __call__(self, node: logical.Node) -> logical.Node | None:
        if isinstance(node, self.moved) and isinstance(node.input, self.through):
            return self.rewrite(node, node.input)
        return None
