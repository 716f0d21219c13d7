"""Families: plans that differ in nothing but the constants that they compare with.

A template is a plan with parameters in the place of these constants. Its lowest selection with parameters gives each
row the member that it is for (`logical.Members`); from there on the column `__member` is part of every key, so one
plan with one state is all members' plans side by side: σ_{__member = m} of it is the plan of m.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import inputs
from dsms.model.rebuild import with_inputs
from dsms.model.schema import schema
from dsms.optimizer.algebra.column_projections import keep_columns, order_columns, unchanged
from dsms.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from operators.core.operator import MEMBER, RIGHT_MEMBER
from operators.expressions import MIRRORED, Call, Column, Expression, Literal, columns
from operators.relational.members import MEMBER_TYPE, Roster

_PARAMETER = "__constant"
_WHOSE = Column(MEMBER, MEMBER_TYPE, nullable=False)


@dataclass(frozen=True)
class Template:
    """A plan without its constants. Plans of one family have one `family`, and differ in `constants` alone."""

    family: str
    node: logical.Node
    constants: tuple[Hashable, ...]


def template(node: logical.Node, *facts: object) -> Template | None:
    """The template of an optimised plan; None where it has no constant that could differ, or an operator that cannot
    tell members apart. `facts` are what plans of one family must agree in besides."""
    nameless = _Lifting("")
    lifted = nameless.lift(node)
    if lifted is None or not nameless.constants:
        return None
    family = fingerprint((lifted, facts))
    named = _Lifting(family)
    lifted = named.lift(node)
    assert lifted is not None
    return Template(family, lifted, tuple(named.constants))


def united(templates: Iterable[tuple[int, Template]]) -> logical.Node:
    """The plan of some members of one family, each with its number: ascending."""
    numbers, members = zip(*templates, strict=True)
    columns_of = zip(*(member.constants for member in members), strict=True)
    constants = {f"{_PARAMETER}{at}": tuple(column) for at, column in enumerate(columns_of)}
    return _manned(members[0].node, Roster(tuple(numbers), constants))


def _manned(node: logical.Node, roster: Roster) -> logical.Node:
    below = with_inputs(node, tuple(_manned(one, roster) for one in inputs(node)))
    return replace(below, roster=roster) if isinstance(below, logical.Members) else below


class _Unable(Exception):
    """The plan has an operator that cannot tell members apart."""


@dataclass
class _Lifting:
    """One walk over a plan, which collects its constants."""

    family: str
    constants: list[Hashable] = field(default_factory=list)
    parameters: list[Column] = field(default_factory=list)
    _known: dict[str, logical.Node] = field(default_factory=dict)

    def lift(self, node: logical.Node) -> logical.Node | None:
        """The plan with parameters; None where that is impossible."""
        try:
            found = self._of(node)
        except _Unable:
            return None
        return found if _grouped(found) else None

    def _of(self, node: logical.Node) -> logical.Node:
        """Equal parts of a plan have equal parameters."""
        identity = fingerprint(node)
        if identity not in self._known:
            self._known[identity] = self._lifted(with_inputs(node, tuple(map(self._of, inputs(node)))))
        return self._known[identity]

    def _lifted(self, node: logical.Node) -> logical.Node:
        """A node over inputs that were lifted."""
        return self._over(node) if any(map(_grouped, inputs(node))) or isinstance(node, logical.Filter) else node

    @singledispatchmethod
    def _over(self, node: logical.Node) -> logical.Node:
        """What needs no change: every row of the input is looked at by itself, or all columns tell rows apart."""
        return node

    @_over.register
    def _(self, node: logical.Filter) -> logical.Node:
        if not total(node.predicate):
            return node
        before = len(self.parameters)
        parts = sorted(conjuncts(node.predicate), key=_shape)
        predicate = conjunction(list(map(self._parametrised, parts)))
        parameters = tuple(self.parameters[before:])
        if not parameters or predicate is None:
            return node
        return logical.Members(node.input, self.family, predicate, parameters, known=_grouped(node.input))

    def _parametrised(self, part: Expression) -> Expression:
        constant = _constant(part)
        if constant is None:
            return part
        self.constants.append(constant.value)
        self.parameters.append(Column(f"{_PARAMETER}{len(self.parameters)}", constant.type, nullable=False))
        return _with(part, constant, self.parameters[-1])

    @_over.register
    def _(self, node: logical.Project) -> logical.Node:
        return replace(node, outputs=(*node.outputs, (MEMBER, _WHOSE)))

    @_over.register
    def _(self, node: logical.GroupBy) -> logical.Node:
        """Without keys there is a row for every member, also for one that has none."""
        if not node.keys:
            raise _Unable
        return replace(node, keys=(*node.keys, MEMBER))

    @_over.register(logical.TopK)
    @_over.register(logical.RowWindow)
    @_over.register(logical.Session)
    def _(self, node: logical.TopK | logical.RowWindow | logical.Session) -> logical.Node:
        return replace(node, partition=(*node.partition, MEMBER))

    @_over.register
    def _(self, node: logical.WindowFunctions) -> logical.Node:
        calls = (replace(call, partition=(*call.partition, MEMBER)) for call in node.calls)
        return replace(node, calls=tuple(calls))

    @_over.register
    def _(self, node: logical.Join) -> logical.Node:
        left, right = _grouped(node.left), _grouped(node.right)
        if left and right and node.outer not in ("none", "left"):
            raise _Unable
        if node.outer == "full" or (node.outer == "left" and not left) or (node.outer == "right" and not right):
            raise _Unable
        if not (left and right):
            return node
        return _without_right(replace(node, right=_renamed(node.right), on=(*node.on, (MEMBER, RIGHT_MEMBER))))

    @_over.register(logical.SemiJoin)
    @_over.register(logical.AsofJoin)
    def _(self, node: logical.SemiJoin | logical.AsofJoin) -> logical.Node:
        if not _grouped(node.left):
            raise _Unable
        if not _grouped(node.right):
            return node
        paired = replace(node, right=_renamed(node.right), on=(*node.on, (MEMBER, RIGHT_MEMBER)))
        return paired if isinstance(node, logical.SemiJoin) else _without_right(paired)

    @_over.register
    def _(self, node: logical.Union) -> logical.Node:
        return replace(node, inputs=tuple(_last(one) for one in node.inputs))

    @_over.register
    def _(self, node: logical.SetOperation) -> logical.Node:
        return replace(node, left=_last(node.left), right=_last(node.right))

    @_over.register
    def _(self, node: logical.Sync) -> logical.Node:
        if len(inputs(node)) == 2 and _grouped(inputs(node)[1]):
            raise _Unable
        return node


def _grouped(node: logical.Node) -> bool:
    return MEMBER in schema(node).names


def _constant(part: Expression) -> Literal | None:
    """The constant of a conjunct that compares a value of the row with one."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    found = [one for one in part.arguments if isinstance(one, Literal) and one.value is not None]
    return found[0] if len(found) == 1 and columns(part) else None


def _with(part: Expression, constant: Literal, parameter: Column) -> Expression:
    assert isinstance(part, Call)
    return replace(part, arguments=tuple(parameter if one is constant else one for one in part.arguments))


def _shape(part: Expression) -> str:
    """A conjunct without its constant: the order of conjuncts must not depend on it."""
    constant = _constant(part)
    parameter = Column(_PARAMETER, (constant or part).type, nullable=False)
    return fingerprint(part if constant is None else _with(part, constant, parameter))


def _renamed(node: logical.Node) -> logical.Node:
    """The right side of a join, its member under another name."""
    outputs = unchanged(schema(node))
    return logical.Project(node, tuple((RIGHT_MEMBER if name == MEMBER else name, one) for name, one in outputs))


def _without_right(node: logical.Node) -> logical.Node:
    return keep_columns(node, [name for name in schema(node).names if name != RIGHT_MEMBER])


def _last(node: logical.Node) -> logical.Node:
    """The input of a set operation, with its member as the last column, where the other side has it too."""
    if not _grouped(node):
        raise _Unable
    return order_columns(node, [*(name for name in schema(node).names if name != MEMBER), MEMBER])
