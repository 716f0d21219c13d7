"""Binds FROM as a whole: collects its items, and joins them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dsms.model.position import not_supported, position_of
from dsms.model.schema import schema
from dsms.sql.binder.from_clause.asof import asof_join, by_using
from dsms.sql.binder.from_clause.catalog_relations import ts_columns
from dsms.sql.binder.from_clause.from_items import checked_alias
from dsms.sql.binder.from_clause.join_clause import (
    JoinClause,
    join_clause_of,
    merged_columns,
    nullable_if_padded,
    qualified_only,
    using_names,
)
from dsms.sql.binder.from_clause.join_order import JoinItem, joined
from dsms.sql.binder.from_clause.joins import join, semi_join
from dsms.sql.binder.from_clause.unnest import Exploding, exploded, exploding
from dsms.sql.binder.nested.correlation import Inner, bind_inside, with_free_names
from dsms.sql.binder.relation import Context, Relation, bind_relation
from dsms.sql.binder.scalars.predicates import (
    columns_outside_subqueries,
    has_subquery,
    is_now,
    parsed_conjuncts,
    predicate,
)
from dsms.sql.binder.scope import ColumnNotFound, Entry, Scope
from dsms.sql.parser.nodes import FromWrapper
from operators.core.errors import SqlError
from operators.expressions import Expression


@dataclass(frozen=True)
class FromList:
    """The bound items of FROM, not all joined yet; their column names are disjoint.

    `waiting` are parsed predicates of WHERE and of inner joins, which are bound when all names are known. `applied` are
    those that were already applied to the items before a lateral or as-of item.
    """

    context: Context
    parts: tuple[JoinItem, ...] = ()
    entries: tuple[Entry, ...] = ()
    visible: tuple[Entry, ...] = ()
    waiting: tuple[exp.Expr, ...] = ()
    applied: tuple[exp.Expr, ...] = ()

    @property
    def scope(self) -> Scope:
        """The scope of the columns of all items."""
        return Scope.of(self.entries, self.context.outer)

    @property
    def taken(self) -> list[str]:
        """The names of all columns of the items, with those that USING computes."""
        return [name for part in self.parts for name in (*schema(part.node).names, *(name for name, _ in part.merged))]

    def with_chain(self, chain: list[JoinClause]) -> FromList:
        """The list with an item and its joins. A chain with a RIGHT or FULL join, which may pad the item, is joined on
        its own first."""
        if self.parts and any(join_clause.outer in ("right", "full") for join_clause in chain):
            return self._with_inner(Inner(joined_chain(chain, self.context)), JoinClause(chain[0].table))
        items = self
        for join_clause in chain:
            items = items._with_clause(join_clause)
        return items

    def _with_clause(self, join_clause: JoinClause) -> FromList:
        if (item := exploding(join_clause.table)) is not None:
            if join_clause.keeps != "pairs":
                raise not_supported(
                    item, f"{join_clause.keeps.upper()} JOIN of {item.key.upper()}", "WHERE x = ANY (a)"
                )
            return self._with_exploded(item, join_clause)
        if (nested := parenthesised(join_clause.table)) is not None:
            relation = joined_chain(nested, self.context)
            aliased = (
                checked_alias(relation, join_clause.table) if isinstance(join_clause.table, exp.Subquery) else relation
            )
            return self._with_inner(Inner(aliased if join_clause.table.args.get("alias") else relation), join_clause)
        if isinstance(join_clause.table, exp.Lateral):
            return self._with_inner(self._lateral(join_clause.table, self.scope), join_clause)
        return self._with_inner(self._lateral(join_clause.table, Scope.of((), self.context.outer)), join_clause)

    def _lateral(self, table: exp.Expr, scope: Scope) -> Inner:
        """An item that may use columns of `scope`: of the items before it, or of the enclosing queries."""
        if not scope.entries and scope.outer is None:
            return Inner(bind_relation(table, self.context))
        return bind_inside(
            lambda inside: bind_relation(table, inside), lambda: self.collapsed().parts[0].node, scope, self.context
        )

    def collapsed(self) -> FromList:
        """The list with its items joined into one, by the predicates that need no further items."""
        if len(self.parts) < 2:
            return self
        ready = [condition for condition in self.waiting if self._is_ready(condition)]
        bound = [predicate(condition, self.scope) for condition in ready]
        node = joined(self.parts, bound, self.context.domain)
        waiting = tuple(condition for condition in self.waiting if condition not in ready)
        return replace(self, parts=(JoinItem(node),), waiting=waiting, applied=(*self.applied, *ready))

    def _is_ready(self, node: exp.Expr) -> bool:
        known = all(self.scope.has(column.name, column.table or None) for column in columns_outside_subqueries(node))
        return known and not has_subquery(node)

    def _with_inner(self, inner: Inner, join_clause: JoinClause) -> FromList:
        if inner.null_safe and join_clause.outer in ("right", "full"):
            kind = join_clause.outer.upper()
            raise not_supported(join_clause.table, f"{kind} JOIN of a lateral item", "LEFT JOIN LATERAL (…) ON TRUE")
        if inner.null_safe and join_clause.asof:
            raise not_supported(join_clause.table, "ASOF JOIN of a lateral item", "put the ASOF JOIN before it")
        filters = join_clause.keeps != "pairs"
        whole = self.collapsed() if inner.null_safe or join_clause.asof or filters else self
        inner = with_free_names(inner, whole.taken, without=self._unused_ts(inner.relation))
        right = inner.relation
        if filters:
            return whole._filtered_by(inner, join_clause)
        names = using_names(join_clause, whole.visible, right.visible)
        merged = merged_columns(
            join_clause, names, Scope.of(whole.entries), right.scope, [*whole.taken, *schema(right.node).names]
        )
        left_padded, right_padded = join_clause.outer in ("right", "full"), join_clause.outer in ("left", "full")
        entries = (
            *merged.names,
            *qualified_only(nullable_if_padded(whole.entries, left_padded), names),
            *qualified_only(nullable_if_padded(right.scope.entries, right_padded), names),
        )
        sides = (*nullable_if_padded(whole.visible, left_padded), *nullable_if_padded(right.visible, right_padded))
        folded = {name.casefold() for name in names}
        visible = (*merged.names, *(entry for entry in sides if entry.name.casefold() not in folded))
        after = replace(whole, entries=entries, visible=visible)
        conditions, moved = after._conditions(join_clause)
        equal = by_using(merged.conditions) if join_clause.asof and merged.conditions else merged.conditions
        part = JoinItem(right.node, join_clause.outer, (*equal, *conditions), merged.computed)
        if join_clause.asof:
            return replace(after, parts=whole._asof_part(part, join_clause.table), waiting=(*after.waiting, *moved))
        parts = whole._lateral_part(part, inner) if inner.null_safe else (*whole.parts, part)
        return replace(after, parts=parts, waiting=(*after.waiting, *moved))

    def _filtered_by(self, inner: Inner, join_clause: JoinClause) -> FromList:
        """The list with only those rows that have a partner, or none, in the item of a SEMI or ANTI JOIN."""
        scope = inner.relation.scope
        names = using_names(join_clause, self.visible, inner.relation.visible)
        taken = [*self.taken, *schema(inner.relation.node).names]
        merged = merged_columns(join_clause, names, Scope.of(self.entries), scope, taken)
        both = replace(self, entries=(*self.entries, *scope.entries))
        conditions, _ = both._conditions(join_clause)
        [left], all_conditions = self.parts, [*merged.conditions, *conditions]
        node = semi_join(
            left.node, inner.relation.node, all_conditions, inner.null_safe, anti=join_clause.keeps == "anti"
        )
        return replace(self, parts=(JoinItem(node),))

    def _lateral_part(self, part: JoinItem, inner: Inner) -> tuple[JoinItem, ...]:
        node = join(self.parts[0].node, part.node, part.conditions, part.outer, inner.null_safe)
        return (part.after(node),)

    def _asof_part(self, part: JoinItem, table: exp.Expr) -> tuple[JoinItem, ...]:
        left, outer = self.parts[0].node, part.outer == "left"
        return (part.after(asof_join(left, part.node, part.conditions, outer=outer, table=table)),)

    def _unused_ts(self, relation: Relation) -> frozenset[str]:
        """The TS columns that the query does not use."""
        return frozenset(
            entry.column.name
            for entry in relation.scope.entries
            if entry.pseudo and not ts_columns(self.context.query, entry.alias or "")
        )

    def _conditions(self, join_clause: JoinClause) -> tuple[list[Expression], list[exp.Expr]]:
        """The bound parts of ON, and the parts with a subquery or Now, which move to WHERE. Raises SqlError if they
        cannot move: those of outer, as-of, SEMI and ANTI joins."""
        parts = parsed_conjuncts(join_clause.on)
        moved = [part for part in parts if has_subquery(part) or self._has_now(part)]
        if moved and (join_clause.outer != "none" or join_clause.asof or join_clause.keeps != "pairs"):
            what = "a subquery" if has_subquery(moved[0]) else "Now"
            kind = "an as-of" if join_clause.asof else "an outer"
            kind = {"semi": "a SEMI", "anti": "an ANTI"}.get(join_clause.keeps, kind)
            instead = "add it as an item of FROM first, and join with that"
            raise not_supported(moved[0], f"{what} in ON of {kind} join", instead)
        return [predicate(part, self.scope, "ON") for part in parts if part not in moved], moved

    def _has_now(self, node: exp.Expr) -> bool:
        return any(is_now(column, self.scope) for column in columns_outside_subqueries(node))

    def _with_exploded(self, item: Exploding, join_clause: JoinClause) -> FromList:
        """The list with an item that has the elements of an array or a range, for each row of the items before it."""
        whole = self.collapsed()
        node, added = exploded(item, join_clause, whole.parts[0].node if whole.parts else None, whole.scope)
        entries = replace(whole, entries=(*whole.entries, *added), visible=(*whole.visible, *added))
        return replace(entries, parts=(JoinItem(node),), waiting=(*whole.waiting, *parsed_conjuncts(join_clause.on)))


def parenthesised(table: exp.Expr) -> list[JoinClause] | None:
    """The joins of `(a JOIN b …)`, or of an item with joins of its own; None for every other item.

    >>> from sqlglot import parse_one
    >>> len(parenthesised(parse_one("SELECT 1 FROM (a CROSS JOIN b)").args["from_"].this))
    2
    """
    joins = table.args.get("joins")
    if joins:
        bare = table.copy()
        bare.set("joins", None)
        return [JoinClause(bare), *(join_clause_of(node) for node in joins)]
    if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table | exp.Subquery | exp.Lateral | FromWrapper):
        inner = parenthesised(table.this)
        if inner is not None:
            return inner
        return [JoinClause(table.this)] if isinstance(table.this, exp.Table | FromWrapper) else None
    return None


def joined_chain(chain: list[JoinClause], context: Context) -> Relation:
    """The relation of items that are joined on their own before they are joined with the other items of FROM."""
    items = FromList(replace(context, domain=None, outer=None, shown_to_users=False))
    for join_clause in chain:
        try:
            items = items._with_clause(join_clause)
        except SqlError as error:
            raise _correlated(error, chain, join_clause, context) or error from error.__cause__
    if items.waiting:
        raise not_supported(items.waiting[0], "a subquery or Now in ON of a nested join")
    node = joined(items.parts, [])
    return Relation(node, replace(items.scope, fields=schema(node)), items.visible)


def _correlated(error: SqlError, chain: list[JoinClause], at: JoinClause, context: Context) -> SqlError | None:
    """A clearer error if an enclosing query has the unknown column, which items that are joined first cannot use; else
    None."""
    if context.outer is None or not isinstance(error.__cause__, ColumnNotFound):
        return None
    named = [column for node in (at.table, at.on) if node is not None for column in node.find_all(exp.Column)]
    for column in named:
        if position_of(column) == (error.line, error.column) and _has_column(context.outer.scope, column):
            kind, instead = _JOINED_FIRST[
                next((part.outer for part in chain if part.outer in ("right", "full")), "none")
            ]
            return not_supported(column, f'column "{column.sql()}" of the enclosing query in {kind}', instead)
    return None


#: The joins whose items are joined on their own first, and what to write instead if one of the items needs a column of
#: an enclosing query.
_JOINED_FIRST = {
    "right": ("a RIGHT JOIN", "write b LEFT JOIN a for a RIGHT JOIN b"),
    "full": ("a FULL JOIN", "join in a view or in WITH, and compare in WHERE"),
    "none": ("joins in parentheses", "leave out the parentheses, or compare in WHERE"),
}


def _has_column(scope: Scope, column: exp.Column) -> bool:
    if scope.has(column.name, column.table or None):
        return True
    return scope.outer is not None and _has_column(scope.outer.scope, column)


def chains(query: exp.Expr) -> list[list[JoinClause]]:
    """The comma-separated items of FROM, each with its joins."""
    chained = [[JoinClause(query.args["from_"].this)]]
    if (nested := parenthesised(chained[0][0].table)) is not None and not isinstance(chained[0][0].table, exp.Subquery):
        chained = [nested]
    for join_clause in (join_clause_of(node) for node in query.args.get("joins") or []):
        chained = [*chained, [join_clause]] if join_clause.comma else [*chained[:-1], [*chained[-1], join_clause]]
    return chained
