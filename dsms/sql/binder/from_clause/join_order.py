"""Joins the items of FROM in the order in which they are written, except that an item with an equality to the items
joined so far comes before items without one, to avoid cross products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsms.model import logical
from dsms.sql.binder.from_clause.joins import Outer, equality, join
from dsms.sql.binder.nested.outer_domain import joined_with_domain
from dsms.sql.binder.query.top_rows import filtered_by_rank
from dsms.sql.binder.scalars.conditions import Output, conjuncts, names_of, own_columns, within
from operators.expressions import Expression


@dataclass(frozen=True)
class JoinItem:
    """An item and how it is joined to the ones before it. `merged` are columns that USING computes after the join."""

    node: logical.Node
    outer: Outer = "none"
    conditions: tuple[Expression, ...] = ()
    merged: tuple[Output, ...] = ()

    def after(self, node: logical.Node) -> JoinItem:
        """The part that replaces this one and the parts before it, given the plan of their join."""
        return JoinItem(logical.Project(node, (*own_columns(node), *self.merged)) if self.merged else node)


@dataclass(frozen=True)
class _Joined:
    """The join so far, and the predicates that wait for further columns."""

    node: logical.Node
    waiting: tuple[Expression, ...]
    domain: logical.Node | None

    def filtered(self) -> _Joined:
        """The join filtered by the predicates that need no further columns."""
        names = names_of(self.node)
        ready = [predicate for predicate in self.waiting if within(predicate, names)]
        waiting = tuple(predicate for predicate in self.waiting if not within(predicate, names))
        return _Joined(filtered_by_rank(self.node, ready), waiting, self.domain)


def joined(
    parts: Sequence[JoinItem], predicates: Sequence[Expression], domain: logical.Node | None = None
) -> logical.Node:
    """The join of all parts, filtered by the predicates. Each predicate is applied as early as possible, but not before
    a join that pads rows of earlier items."""
    for at in range(len(parts) - 1, 0, -1):
        if (part := parts[at]).outer in ("right", "full"):
            node = join(joined(parts[:at], []), part.node, part.conditions, part.outer)
            return joined([part.after(node), *parts[at + 1 :]], predicates)
    inner = [condition for part in parts if part.outer == "none" for condition in part.conditions]
    waiting = tuple(part for condition in [*inner, *predicates] for part in conjuncts(condition))
    state = _Joined(parts[0].node, waiting, domain)
    state = state if parts[0].node is domain else state.filtered()
    rest = list(parts[1:])
    while rest:
        part = _next(state, rest)
        rest.remove(part)
        state = _with_part(state, part)
    return state.filtered().node


def _next(state: _Joined, rest: list[JoinItem]) -> JoinItem:
    """The first available inner part that an equality connects to the join so far, else the first part."""
    names = names_of(state.node)
    for part in rest:
        if part.outer != "none" or part.merged:
            break
        if any(equality(predicate, names, names_of(part.node)) for predicate in state.waiting):
            return part
    return rest[0]


def _with_part(state: _Joined, part: JoinItem) -> _Joined:
    if part.outer != "none":
        node = join(state.node, part.node, part.conditions, part.outer)
        return _Joined(part.after(node).node, state.waiting, state.domain).filtered()
    item = filtered_by_rank(
        part.node, [predicate for predicate in state.waiting if within(predicate, names_of(part.node))]
    )
    waiting = tuple(predicate for predicate in state.waiting if not within(predicate, names_of(part.node)))
    both = names_of(state.node) | names_of(item)
    ready = [predicate for predicate in waiting if within(predicate, both)]
    join_items = joined_with_domain if state.node is state.domain else join
    node = part.after(join_items(state.node, item, ready)).node
    return _Joined(node, tuple(predicate for predicate in waiting if predicate not in ready), state.domain).filtered()
