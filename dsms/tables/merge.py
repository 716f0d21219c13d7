"""MERGE evaluated over the relations of one instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.names import bare_name
from dsms.model.objects import Table
from dsms.registration.table_targets import check_values, columns_of
from dsms.tables.effect import Content, Effect, Key, cast_to_table, insert_effect, key_rows, remove_effect
from dsms.tables.table_rows import (
    changes_of,
    check_columns_differ,
    columns_in,
    defaults_of,
    in_column_order,
    keys_in,
    numbered_values,
    or_default,
    replacement_effect,
    select_over,
    table_as,
)

#: The name of a column that marks the rows of one side of an outer join, and the name of a source without an alias.
_PRESENT, _SOURCE = "__present", "__source"


def selects_of(statement: st.Merge, table: Table) -> list[exp.Expr]:
    """For each branch the query of its rows: for UPDATE the new values and the old key, for DELETE the key, for INSERT
    the values."""
    return [query for _, query in _branches(statement, table)]


def merge_effects(
    statement: st.Merge, table: Table, rows: Callable[[exp.Expr], pa.Table], content: Content
) -> tuple[Effect, ...]:
    """The effects of the branches. Each pair of rows that match, and each row of either side without a match, takes the
    first branch whose condition is TRUE. Raises SqlError if two rows of the source change one row of the table."""
    found = [(branch, rows(query)) for branch, query in _branches(statement, table)]
    updates = [matches for branch, matches in found if branch.action == "update"]
    deletes = [keys_in(table, matches) for branch, matches in found if branch.action == "delete"]
    _check_once(statement, table, [*map(partial(_old_keys, table), updates), *deletes])
    rows_and_keys = [_cast_to_table(table, matches) for matches in updates]
    effects = [replacement_effect(table, pa.concat_tables(rows_and_keys), content)] if updates else []
    effects += [remove_effect(table, keys) for keys in deletes]
    seen = {key for effect in effects for key in key_rows(effect.upserts.select(list(table.keys)))}
    inserts = ((branch, matches) for branch, matches in found if branch.action == "insert")
    added = (
        _insert_effect(table, _named(statement, branch, table, matches), rows, content, seen)
        for branch, matches in inserts
    )
    return (*effects, *added)


def _branches(statement: st.Merge, table: Table) -> Iterator[tuple[st.MergeBranch, exp.Expr]]:
    for at, branch in enumerate(statement.branches):
        before = [other.condition for other in statement.branches[:at] if other.rows == branch.rows]
        yield branch, _query(statement, table, branch, _chosen(branch.condition, before))


def _chosen(condition: exp.Expr | None, before: list[exp.Expr | None]) -> exp.Expr:
    """The predicate of the rows that take a branch: its condition is TRUE, and no condition of an earlier branch is."""
    refused = [exp.Not(this=exp.func("coalesce", one.copy(), exp.false())) if one else exp.false() for one in before]
    return exp.and_(*refused, condition.copy() if condition is not None else exp.true())


def _query(statement: st.Merge, table: Table, branch: st.MergeBranch, chosen: exp.Expr) -> exp.Expr:
    """The query of the values that a branch computes from the rows that take it."""
    named = columns_in(table, statement.alias)
    values = list(map(named, table.keys))
    if branch.action == "update":
        check_columns_differ(branch.changes, table)
        changes = changes_of(branch.changes, table)
        values = [*(changes.get(name, named(name)) for name in table.schema.names), *values]
    if branch.rows == "both":
        pairs = exp.and_(statement.on.copy(), chosen)
        return select_over(table, values, pairs, (statement.source,), statement.alias)
    if branch.rows == "source":
        names = columns_of(branch.columns, table)
        values = [or_default(table, *given) for given in zip(names, branch.values, strict=False)] or [exp.true()]
    alone = _without_partner(statement, table, of_source=branch.rows == "source")
    return exp.Select(expressions=numbered_values(values), from_=exp.From(this=alone), where=exp.Where(this=chosen))


def _without_partner(statement: st.Merge, table: Table, *, of_source: bool) -> exp.Expr:
    """The rows of one side for which ON is TRUE with no row of the other side. As for pairs, ON is evaluated over both
    sides, so that a name that both have is ambiguous."""
    own = exp.to_identifier(statement.alias or bare_name(table.name), quoted=True)
    target = table_as(table, statement.alias)
    source, other = statement.source.copy(), exp.to_identifier(statement.source.alias_or_name or _SOURCE, quoted=True)
    kept, kept_name, partner, partner_name = (source, other, target, own) if of_source else (target, own, source, other)
    if kept is source and not statement.source.alias_or_name:
        kept.set("alias", exp.TableAlias(this=other))
    present = [exp.Star(), exp.alias_(exp.true(), _PRESENT, quoted=True)]
    inside = exp.Select(expressions=present, from_=exp.From(this=partner))
    marked = exp.Subquery(this=inside, alias=exp.TableAlias(this=partner_name.copy()))
    join = exp.Join(this=marked, side="LEFT", on=statement.on.copy())
    missing = exp.Is(this=exp.column(_PRESENT, table=partner_name.copy(), quoted=True), expression=exp.null())
    star = exp.Column(this=exp.Star(), table=kept_name.copy())
    alone = exp.Select(expressions=[star], from_=exp.From(this=kept), joins=[join], where=exp.Where(this=missing))
    return exp.Subquery(this=alone, alias=exp.TableAlias(this=kept_name.copy()))


def _old_keys(table: Table, matches: pa.Table) -> pa.Table:
    return keys_in(table, matches.select(range(len(table.schema), matches.num_columns)))


def _check_once(statement: st.Merge, table: Table, keys: list[pa.Table]) -> None:
    changed = [key for part in keys for key in key_rows(part)]
    if len(set(changed)) < len(changed):
        raise statement.table.place.error(
            f'two rows of USING would change the same row of table "{table.name}"', "choose one of them in ON or WHEN"
        )


def _cast_to_table(table: Table, matches: pa.Table) -> pa.Table:
    """The new rows and the old keys in the types of the table, as constants of different branches may have others."""
    new, old = cast_to_table(table, matches.select(range(len(table.schema)))), _old_keys(table, matches)
    columns = [*new.columns, *old.columns]
    return pa.table(columns, names=[f"c{at}" for at in range(len(columns))])


def _named(statement: st.Merge, branch: st.MergeBranch, table: Table, matches: pa.Table) -> pa.Table:
    """The values of an INSERT, named by its columns."""
    names = columns_of(branch.columns, table)
    check_values(statement.table, names, matches.num_columns)
    return matches.rename_columns(names)


def _insert_effect(
    table: Table, given: pa.Table, rows: Callable[[exp.Expr], pa.Table], content: Content, seen: set[Key]
) -> Effect:
    return insert_effect(
        table, in_column_order(table, given, defaults_of(table, given.column_names, rows)), content, seen
    )
