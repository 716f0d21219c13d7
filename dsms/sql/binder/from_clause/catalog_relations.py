"""Plans of streams and views by name, with their pseudo-column TS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
from sqlglot import exp

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Constraint
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import ROW_NUMBER, Former, Object, Query, Source, Stream, Table, number_of
from dsms.model.position import error_at, position_of
from dsms.model.properties import append_only, keys
from dsms.model.schema import schema, visible
from dsms.model.statements import TextLocation
from dsms.model.user_defined import Aggregate, Function
from dsms.planner.optimizer.first_offsets import reading_from
from dsms.planner.optimizer.start_instants import from_instant
from dsms.sql.binder.adjustable import adjustable_plan
from dsms.sql.binder.dependencies import dependencies_of, query_of
from dsms.sql.binder.relation import Context, OnName, Relation, bind_query
from dsms.sql.binder.scalars.python_functions import mark_functions
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.parser.table_names import name_and_place
from operators.core.errors import SqlError
from operators.expressions import column
from operators.streams.tagger import TS


def plan_of(name: str, catalog: Catalog, reader: int | None = None) -> logical.Node:
    """The plan of a stream, view or query of the catalog. It depends only on the objects that the named one reads. A
    stream or table has the columns that the object number `reader` reads; None: its current ones."""
    named = catalog.find(name)
    read = dependencies_of(named, catalog)
    if reader is None or not isinstance(named, Stream | Table):
        return plan_given(named, *read)
    return plan_given(_seen_by(reader, named), *(_seen_by(reader, item) for item in read))


def _seen_by(reader: int, item: Object) -> Object:
    return item.seen_by(reader) if isinstance(item, Source | Table) else item


@memoized_by_identity(512)
def plan_given(target: Object | Former, *read: Object) -> logical.Node:
    """The plan of an object, given all objects that it reads."""
    catalog = Catalog(objects={item.name.lower(): item for item in _visible_versions(target, read)})
    if isinstance(target, Stream):
        source = catalog.find(target.source)
        assert isinstance(source, Source)
        keys = tuple(source.schema.names) if target.bag else target.keys
        scan = scan_of(source, target.name, keys, catalog)
        return replace(scan, bag=target.bag, created_as=target.created_as)
    if isinstance(target, Table):
        log = target.source.versions[-1]
        return logical.StreamScan(log, target.name, target.keys, created_as=log.as_registered.name)
    if isinstance(target, Source):
        raise SqlError(f'"{target.name}" is a source, not a stream', hint=f"CREATE STREAM … OVER {target.name} KEY …")
    if isinstance(target, Aggregate | Function):
        kind = "an aggregate" if isinstance(target, Aggregate) else "a function"
        raise SqlError(f'"{target.name}" is {kind}, not a stream')
    context = Context(
        catalog,
        shown_to_users=True,
        fields_named=target.fields_named,
        streams_united=target.streams_united,
        text_given=target.text_given,
    )
    result = _result(query_of(target.select), context)
    node = from_instant(result, target.start)
    return adjustable_plan(reading_from(node, target.first_offsets), target)


def _visible_versions(target: Object | Former, read: tuple[Object, ...]) -> Iterator[Object]:
    """The objects as the target sees them: aggregates and functions have only the definitions older than the target."""
    number = number_of(target.id)
    for item in read:
        if isinstance(item, Aggregate):
            if parts := tuple(part for part in item.parts if part.number < number):
                yield msgspec.structs.replace(item, parts=parts)
        elif isinstance(item, Function):
            if versions := tuple(version for version in item.versions if version.number < number):
                yield msgspec.structs.replace(item, versions=versions)
        else:
            yield item


def scan_of(source: Source, stream: str, keys: tuple[str, ...], catalog: Catalog) -> logical.StreamScan:
    """The scan of a stream over a source, with the source's constraints except ORDERED BY as promises."""
    promises = (_promise(constraint, catalog) for constraint in source.constraints if constraint.kind != "ordered")
    return logical.StreamScan(source.versions[-1], stream, keys, promises=tuple(promises))


def _promise(constraint: Constraint, catalog: Catalog) -> logical.Cluster | logical.Reference:
    within = constraint.k or 0
    if constraint.other is None or constraint.theirs is None:
        return logical.Cluster(constraint.column, within)
    other = catalog.find(constraint.other)
    assert isinstance(other, Source)
    scan = replace(scan_of(other, other.name, (), catalog), created_as=other.as_registered.name)
    return logical.Reference(constraint.column, within, scan, constraint.theirs)


def result_of(query: exp.Expr, catalog: Catalog, on_name: OnName) -> logical.Node:
    """The plan of a query whose result users see: every column has a unique name and a type."""
    return _result(query, Context(catalog, on_name=on_name, shown_to_users=True))


def _result(query: exp.Expr, context: Context) -> logical.Node:
    mark_functions(query, context.catalog)
    return bind_query(query, context).node


def bind_name(table: exp.Table, context: Context) -> Relation:
    """The relation of the stream or view that a table reference names, with TS if the query uses it. Raises
    SqlError."""
    name, at = name_and_place(table)
    place = TextLocation(*position_of(at))
    context.on_name(name)
    named = context.catalog.find(name, place)
    if isinstance(named, Query) and named.kind == "query":
        raise place.error(f'"{name}" is a query, not a view', "make it a view: CREATE STREAMED VIEW … AS …")
    if isinstance(named, Source):
        raise place.error(f'"{name}" is a source, not a stream', f"CREATE STREAM … OVER {name} KEY …")
    if isinstance(named, Aggregate):
        raise place.error(f'"{name}" is an aggregate, not a stream')
    hidden = ROW_NUMBER if isinstance(named, Table) and named.is_bag else ""
    plan = plan_of(name, context.catalog, context.text_given)
    return _relation(plan, table.alias or named.name, context, hidden)


def _relation(plan: logical.Node, alias: str, context: Context, hidden: str = "") -> Relation:
    """The relation of a plan; `*` does not include its column `hidden`."""
    shown = visible(plan)
    node = _with_ts(plan, alias, context)
    pseudo = {hidden} if TS in shown.names else {hidden, TS}
    entries = tuple(Entry(alias, field.name, column(field), pseudo=field.name in pseudo) for field in schema(node))
    scope = replace(Scope.of(entries), fields=schema(node), alias=alias)
    return Relation(node, scope, tuple(entry for entry in entries if not entry.pseudo))


def _with_ts(node: logical.Node, alias: str, context: Context) -> logical.Node:
    """The relation with its TS column, if the query uses it. The TS of a view is the instant at which a row last
    changed, so the view needs a key or append-only rows. Raises SqlError if it has neither."""
    if any(name.upper() == TS for name in schema(node).names):
        return node
    mentions = ts_columns(context.query, alias)
    if not mentions:
        return node
    if keys(node) or append_only(node):
        return logical.Restamp(node, alias)
    certain = [column for column in mentions if column.text("table") or _is_only_here(column, context.query)]
    if not certain:
        return node
    message = f'TS of "{alias}" is ambiguous: its rows can be deleted, and it has no key'
    raise error_at(certain[0], message, hint="select the key columns in the view")


def ts_columns(query: exp.Expr | None, alias: str) -> list[exp.Expr]:
    """The places where a query uses the TS of the FROM item `alias`: qualified, unqualified or in USING."""
    if query is None:
        return []
    using = (column for join in query.find_all(exp.Join) for column in join.args.get("using") or ())
    columns = [column for column in (*query.find_all(exp.Column), *using) if column.name.upper() == TS]
    return [column for column in columns if column.text("table").lower() in ("", alias.lower())]


def _is_only_here(column: exp.Expr, query: exp.Expr | None) -> bool:
    """Whether an unqualified TS can only belong to this item: the query has no other item and contains the TS
    itself."""
    return query is not None and not query.args.get("joins") and column.find_ancestor(exp.Select) is query
