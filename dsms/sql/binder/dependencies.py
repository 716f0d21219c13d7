"""Dependencies by name: what queries and objects of a catalog read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream, Table, number_of
from dsms.model.user_defined import Aggregate
from dsms.sql.binder.scalars.expression_functions import written_name
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.full_names import with_full_names
from dsms.sql.parser.rewrites import rewritten
from dsms.sql.parser.statement_limits import balance_conditions
from dsms.sql.parser.table_names import name_of

_CALL = re.compile(r"\b(\w+)\s*\(")


def names_in(query: exp.Expr) -> list[str]:
    """The streams and views that a query reads."""
    return [name_of(table) for table in tables_in(query)]


def tables_in(query: exp.Expr) -> Iterator[exp.Table]:
    """The references to streams and views of the catalog in a query."""
    return (table for table in query.find_all(exp.Table) if not _is_common(table))


def _is_common(table: exp.Table) -> bool:
    """Whether a table reference names a common table of an enclosing WITH."""
    above = table.parent
    while above is not None:
        named = above.args.get("with_")
        if named is not None and any(cte.alias.lower() == table.name.lower() for cte in named.expressions):
            return True
        above = above.parent
    return False


def calls_in(query: exp.Expr) -> list[str]:
    """The names of the functions that a query calls, each as the catalog names user-defined ones: `avg()`."""
    calls = {written_name(node) for node in query.find_all(exp.Func)}
    return [f"{name}()" for name in sorted(calls)]


def calls_in_body(sql: str) -> list[str]:
    """The names of the aggregates that an aggregate's SQL may call, each as the catalog names them: `avg()`."""
    return [f"{name}()" for name in dict.fromkeys(name.lower() for name in _CALL.findall(sql))]


def reads(item: Object) -> list[str]:
    """The names of the objects that an object reads directly, and of the functions and aggregates that it may call."""
    if isinstance(item, Aggregate):
        in_sql = [part.sql for part in item.parts if not part.python]
        return [name for sql in in_sql for name in calls_in_body(sql) if name != item.name]
    if isinstance(item, Stream):
        return [item.source]
    if isinstance(item, Source):
        named = [item.late_of, *(constraint.other for constraint in item.constraints)]
        return [name for name in named if name is not None]
    return list(_names_in_text(item.select)) if isinstance(item, Query) else []


@lru_cache(1024)
def _names_in_text(select: str) -> tuple[str, ...]:
    query = _parsed(select)
    return (*names_in(query), *calls_in(query))


def query_of(select: str) -> exp.Expr:
    """A copy of the tree of a query of the catalog, which the caller may modify."""
    return _parsed(select).copy()


@lru_cache(32)
def _parsed(select: str) -> exp.Expr:
    """The parsed query. The cache is small because trees are large; it suffices because a query is parsed for its
    dependencies just before it is planned."""
    tree = with_full_names(rewritten(sqlglot.parse_one(select, read=Dsms)))
    balance_conditions(tree)
    return tree


def dependencies_of(item: Object, catalog: Catalog) -> tuple[Object, ...]:
    """All objects that an object reads, directly or indirectly, in order of creation."""
    wanted, names = reads(item), set[str]()
    while wanted:
        read = catalog.get(wanted.pop())
        if read is not None and read.name.lower() not in names:
            names.add(read.name.lower())
            wanted += reads(read)
    return tuple(item for name, item in catalog.objects.items() if name in names)


def dependents(catalog: Catalog, target: Object) -> list[Object]:
    """All objects that depend on an object, directly or indirectly, in order of creation."""
    needed, above = {target.name.lower()}, list[Object]()
    first = number_of(target.id) if isinstance(target, Aggregate) else 0
    names = {id: item.name for item in catalog.objects.values() for id in _ids(item)}
    for item in catalog.objects.values():
        if item is target or (first and number_of(item.id) < first):
            continue  # an older query calls the built-in aggregate of the same name
        if needed & {name.lower() for name in _needs(item, names)}:
            needed.add(item.name.lower())
            above.append(item)
    return above


def _ids(item: Object) -> tuple[str, ...]:
    """The ids that an object has and had: sources and tables get a new one for each change of their columns."""
    match item:
        case Source():
            return item.ids
        case Table():
            return (item.id, *item.source.ids)
    return (item.id,)


def _needs(item: Object, names: Mapping[str, str]) -> list[str]:
    """The names of what an object needs: for a table, the query that fills it; for others, all that they read, with the
    sources and tables that a query's former version reads, as long as the query keeps that version. `names` are the
    current names of objects, by id."""
    if isinstance(item, Table):
        return [] if item.filled_by is None else [item.filled_by]
    former = item.former.objects if isinstance(item, Query) and item.former is not None else ()
    return [*reads(item), *(names.get(log.id, log.name) for log in former if isinstance(log, Source | Table))]
