"""Reads the names of schemas in queries: relations get their full names, as the catalog has them."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dsms.model.names import full_name
from dsms.model.position import error_at
from dsms.sql.parser.cursor import DATABASE, PUBLIC
from dsms.sql.parser.table_names import RELATION_OF

#: The schemas of PostgreSQL's catalog, which is no part of the catalog here.
_CATALOGS: Final = ("pg_catalog", "information_schema")
#: In the `meta` of an item of FROM: its alias is not in the text.
UNWRITTEN_ALIAS: Final = "unwritten alias"


def with_full_names(tree: exp.Expr) -> exp.Expr:
    """The query, modified in place: `schema.name` in FROM is one name, `public.` and `dsms.` are removed. Without an
    alias the item is called by its bare name, also where columns are qualified with the schema. Raises SqlError.

    >>> import sqlglot
    >>> with_full_names(sqlglot.parse_one("SELECT s.t.a, public.u.b FROM S.t, dsms.public.u, public.v")).sql()
    'SELECT t.a, u.b FROM "s.t" AS t, u, v'
    """
    called: set[tuple[str, str]] = set()
    for table in tree.find_all(exp.Table):
        database, schema, name = _parts(table)
        if schema is None or not isinstance(name, exp.Identifier) or schema.name.lower() in _CATALOGS:
            continue
        _check_database(database)
        called.add((schema.name.lower(), name.name.lower()))
        _give_full_name(table, schema, name)
    for column in tree.find_all(exp.Column) if called else ():
        if (column.db.lower(), column.table.lower()) in called:
            column.set("db", None)
            column.set("catalog", None)
    return tree


def _parts(table: exp.Table) -> tuple[exp.Expr | None, exp.Identifier | None, exp.Expr | None]:
    """The database, schema and name in `database.schema.name`, also in R(database.schema.name)."""
    call = table.this
    if not isinstance(call, exp.Anonymous) or call.name.upper() not in RELATION_OF:
        return table.args.get("catalog"), table.args.get("db"), call
    column = call.expressions[0] if len(call.expressions) == 1 else None
    if not isinstance(column, exp.Column):
        return None, None, None
    return column.args.get("db"), column.args.get("table"), column.this


def _check_database(database: exp.Expr | None) -> None:
    if database is not None and database.name.upper() != DATABASE:
        raise error_at(database, f'database "{database.name}" not found', hint="have: dsms; a name is schema.name")


def _give_full_name(table: exp.Table, schema: exp.Identifier, name: exp.Identifier) -> None:
    full = exp.to_identifier(full_name(schema.name, name.name), quoted=schema.name.upper() != PUBLIC or name.quoted)
    full.meta.update(name.meta)
    if schema.name.upper() != PUBLIC and "start" in schema.meta:
        full.meta["start"] = schema.meta["start"]
    if isinstance(table.this, exp.Identifier):
        table.set("this", full)
        table.set("db", None)
        table.set("catalog", None)
    else:
        table.this.set("expressions", [exp.Column(this=full)])
    if schema.name.upper() != PUBLIC and not table.alias:
        alias = table.args.get("alias") or exp.TableAlias()
        alias.set("this", exp.to_identifier(name.name, quoted=name.quoted))
        table.set("alias", alias)
        table.meta[UNWRITTEN_ALIAS] = True
