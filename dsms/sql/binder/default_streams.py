"""The Istream that CQL adds by default to what a window is applied to (CQL section 6.2.2)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.properties import append_only
from dsms.sql.binder.from_clause.catalog_relations import result_of
from dsms.sql.parser import nodes
from dsms.sql.parser.table_names import name_of
from operators.core.errors import UserError


def windows_with_default_stream(query: exp.Expr, catalog: Catalog) -> Iterator[exp.Expr]:
    """CQL's windows over subqueries without Istream, Dstream or Rstream, and over relations that rows can leave."""
    for window in list(query.find_all(nodes.StreamWindow)):
        if window.args["notation"] == "cql" and _has_default_stream(window.this, catalog):
            yield window


def default_stream_notice(window: exp.Expr) -> str:
    """The notice that Istream is applied to what a window is applied to."""
    if isinstance(window.this, exp.Subquery):
        return f"Istream is applied by default to subquery {window.alias_or_name}".strip()
    table = _table(window.this)
    assert isinstance(table, exp.Table)
    return f"Istream is applied by default to {name_of(table)}: its rows can leave"


def add_default_stream(window: exp.Expr) -> None:
    """Writes the default Istream out, in place."""
    item = window.this
    if isinstance(item, exp.Subquery):
        item.set("this", nodes.stream_of_query(item.this, "istream", {}))
    else:
        window.set("this", nodes.StreamOf(this=item.copy(), kind="istream"))


def _has_default_stream(item: exp.Expr, catalog: Catalog) -> bool:
    if isinstance(item, exp.Subquery):
        return nodes.output_kind(item.this) is None
    return isinstance(_table(item), exp.Table) and _loses_rows(item, catalog)


def _table(item: exp.Expr) -> exp.Expr:
    """The innermost item of FROM, without what wraps it."""
    while isinstance(item, nodes.FromWrapper):
        item = item.this
    return item


def _loses_rows(item: exp.Expr, catalog: Catalog) -> bool:
    """Whether rows can leave a relation; False if it cannot be bound, which is reported elsewhere."""
    query = nodes.plain_star(item.copy())
    if common := item.root().args.get("with_"):
        query.set("with_", common.copy())
    try:
        return not append_only(result_of(query, catalog, lambda _: None))
    except UserError:
        return False
