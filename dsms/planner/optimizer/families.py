"""Families of queries: queries whose plans differ only in the constants of comparisons run as one plan.

A template is a plan with parameters instead of these constants. Its lowest filters with parameters become
`logical.Members`, which adds to each row the number of the member (the query) to which it belongs. Above, this column
`__member` is part of every key, so one plan with one state computes the results of all members: σ_{__member = m}
selects those of member m.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import TypeVar

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import keep_columns, order_columns, unchanged
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from operators.core.operator import MEMBER, RIGHT_MEMBER
from operators.expressions import MIRRORED, Call, Column, Expression, Literal, columns
from operators.relational.members import MEMBER_TYPE, Roster

_PARAMETER = "__constant"
_MEMBER_COLUMN = Column(MEMBER, MEMBER_TYPE, nullable=False)


@dataclass(frozen=True)
class Template:
    """A plan with parameters, and its constants. Plans of one family have the same `family`, and differ only in
    `constants`."""

    family: str
    node: logical.Node
    constants: tuple[Hashable, ...]


def template_of(node: logical.Node, *facts: object) -> Template | None:
    """The template of an optimised plan. `facts` are further values that must be equal for all queries of a family.

    None if the plan has no constant that can be a parameter, or has an operator that cannot keep members apart."""
    nameless = _Parametrisation("")
    parametrised = nameless.apply(node)
    if parametrised is None or not nameless.constants:
        return None
    family = fingerprint((parametrised, facts))
    named = _Parametrisation(family)
    parametrised = named.apply(node)
    assert parametrised is not None
    return Template(family, parametrised, tuple(named.constants))


def plan_of_members(templates: Iterable[tuple[int, Template]]) -> logical.Node:
    """One plan for members of a family: pairs of a number and a template, in ascending order of the numbers."""
    numbers, members = zip(*templates, strict=True)
    # Members with the constants (1, "a") and (2, "b") give __constant0 = (1, 2) and __constant1 = ("a", "b").
    constants = zip(*(member.constants for member in members), strict=True)
    by_parameter = {f"{_PARAMETER}{at}": values for at, values in enumerate(constants)}
    return _with_roster(members[0].node, Roster(tuple(numbers), by_parameter))


def _with_roster(node: logical.Node, roster: Roster) -> logical.Node:
    """The plan with the roster (the members with their constants) set in each of its `Members` nodes."""
    rebuilt = with_inputs(node, tuple(_with_roster(below, roster) for below in inputs(node)))
    return replace(rebuilt, roster=roster) if isinstance(rebuilt, logical.Members) else rebuilt


class _CannotTellApart(Exception):
    """The plan has an operator that cannot keep the rows of members apart."""


@dataclass
class _Parametrisation:
    """One walk over a plan, which replaces its constants by parameters and collects the constants."""

    family: str
    constants: list[Hashable] = field(default_factory=list)
    parameters: list[Column] = field(default_factory=list)
    _done: dict[str, logical.Node] = field(default_factory=dict)

    def apply(self, node: logical.Node) -> logical.Node | None:
        """The plan with parameters; None if that is impossible."""
        try:
            parametrised = self._plan(node)
        except _CannotTellApart:
            return None
        return parametrised if _has_member(parametrised) else None

    def _plan(self, node: logical.Node) -> logical.Node:
        """A plan with parameters; equal parts get equal parameters."""
        identity = fingerprint(node)
        if identity not in self._done:
            over_parametrised = with_inputs(node, tuple(map(self._plan, inputs(node))))
            changes = any(map(_has_member, inputs(over_parametrised))) or isinstance(node, logical.Filter)
            self._done[identity] = self._node(over_parametrised) if changes else over_parametrised
        return self._done[identity]

    @singledispatchmethod
    def _node(self, node: logical.Node) -> logical.Node:
        """A node over parametrised inputs, changed to keep members apart. Most nodes need no change, because they
        process each row on its own, or distinguish rows by all columns.
        """
        return node

    @_node.register
    def _(self, node: logical.Filter) -> logical.Node:
        if not total(node.predicate):
            return node
        before = len(self.parameters)
        parts = sorted(conjuncts(node.predicate), key=_shape)
        predicate = conjunction(list(map(self._conjunct, parts)))
        parameters = tuple(self.parameters[before:])
        if not parameters or predicate is None:
            return node
        return logical.Members(node.input, self.family, predicate, parameters, known=_has_member(node.input))

    def _conjunct(self, part: Expression) -> Expression:
        constant = _constant(part)
        if constant is None:
            return part
        self.constants.append(constant.value)
        self.parameters.append(Column(f"{_PARAMETER}{len(self.parameters)}", constant.type, nullable=False))
        return _replaced(part, constant, self.parameters[-1])

    @_node.register
    def _(self, node: logical.Recursion) -> logical.Node:
        """Not supported, because its rules would have to include the member."""
        raise _CannotTellApart

    @_node.register
    def _(self, node: logical.Apply) -> logical.Node:
        """A function with state is not supported, because it would have to keep members apart by itself."""
        if node.function.partition is not None:
            raise _CannotTellApart
        return node

    @_node.register
    def _(self, node: logical.Project) -> logical.Node:
        return replace(node, outputs=(*node.outputs, (MEMBER, _MEMBER_COLUMN)))

    @_node.register
    def _(self, node: logical.GroupBy) -> logical.Node:
        """Adds the member to the keys. Without keys it is not supported, because then even a member without input rows
        must have a row.
        """
        if not node.keys:
            raise _CannotTellApart
        return replace(node, keys=(*node.keys, MEMBER))

    @_node.register(logical.TopK)
    @_node.register(logical.RowWindow)
    @_node.register(logical.Session)
    def _(self, node: logical.TopK | logical.RowWindow | logical.Session) -> logical.Node:
        return replace(node, partition=(*node.partition, MEMBER))

    @_node.register
    def _(self, node: logical.WindowFunctions) -> logical.Node:
        calls = (replace(call, partition=(*call.partition, MEMBER)) for call in node.calls)
        return replace(node, calls=tuple(calls))

    @_node.register
    def _(self, node: logical.Join) -> logical.Node:
        left, right = _has_member(node.left), _has_member(node.right)
        if left and right and node.outer not in ("none", "left"):
            raise _CannotTellApart
        if node.outer == "full" or (node.outer == "left" and not left) or (node.outer == "right" and not right):
            raise _CannotTellApart
        if not (left and right):
            return node
        return _without_right_member(_paired(node))

    @_node.register(logical.SemiJoin)
    @_node.register(logical.AsofJoin)
    def _(self, node: logical.SemiJoin | logical.AsofJoin) -> logical.Node:
        if not _has_member(node.left):
            raise _CannotTellApart
        if not _has_member(node.right):
            return node
        return _paired(node) if isinstance(node, logical.SemiJoin) else _without_right_member(_paired(node))

    @_node.register
    def _(self, node: logical.Union) -> logical.Node:
        return replace(node, inputs=tuple(_member_last(branch) for branch in node.inputs))

    @_node.register
    def _(self, node: logical.SetOperation) -> logical.Node:
        return replace(node, left=_member_last(node.left), right=_member_last(node.right))

    @_node.register
    def _(self, node: logical.Sync) -> logical.Node:
        if len(inputs(node)) == 2 and _has_member(inputs(node)[1]):
            raise _CannotTellApart
        return node


def _has_member(node: logical.Node) -> bool:
    return MEMBER in schema(node).names


def _constant(part: Expression) -> Literal | None:
    """The constant of a conjunct that compares an expression over the row with a constant; None for any other."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    literals = [operand for operand in part.arguments if isinstance(operand, Literal) and operand.value is not None]
    return literals[0] if len(literals) == 1 and columns(part) else None


def _replaced(part: Expression, constant: Literal, parameter: Column) -> Expression:
    """The conjunct with its constant replaced by the parameter."""
    assert isinstance(part, Call)
    return replace(part, arguments=tuple(parameter if operand is constant else operand for operand in part.arguments))


def _shape(part: Expression) -> str:
    """Identifies a conjunct regardless of its constant. Conjuncts are sorted by it, so their order does not depend on
    constants.
    """
    constant = _constant(part)
    parameter = Column(_PARAMETER, (constant or part).type, nullable=False)
    return fingerprint(part if constant is None else _replaced(part, constant, parameter))


_AnyJoin = TypeVar("_AnyJoin", logical.Join, logical.SemiJoin, logical.AsofJoin)


def _paired(node: _AnyJoin) -> _AnyJoin:
    """The join that pairs only rows of the same member; the member column of the right side is renamed."""
    outputs = unchanged(schema(node.right))
    renamed = tuple((RIGHT_MEMBER if name == MEMBER else name, output) for name, output in outputs)
    return replace(node, right=logical.Project(node.right, renamed), on=(*node.on, (MEMBER, RIGHT_MEMBER)))


def _without_right_member(node: logical.Node) -> logical.Node:
    return keep_columns(node, [name for name in schema(node).names if name != RIGHT_MEMBER])


def _member_last(node: logical.Node) -> logical.Node:
    """An input of a union or set operation with its member as the last column. Raises _CannotTellApart if it has no
    member column, because another input has one."""
    if not _has_member(node):
        raise _CannotTellApart
    return order_columns(node, [*(name for name in schema(node).names if name != MEMBER), MEMBER])
