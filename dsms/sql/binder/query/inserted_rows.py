"""Turns the SELECT of a continuous INSERT into the query for the rows of its table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Column
from dsms.model.objects import Table
from dsms.model.position import error_at
from dsms.model.properties import append_only
from dsms.model.schema import visible
from dsms.sql.binder.bind import bind
from dsms.sql.binder.relation import OnName
from dsms.sql.parser.nodes import WholeQuery
from dsms.sql.parser.numbered_aliases import text_of, with_numbered_aliases


@dataclass(frozen=True)
class InsertedSelect:
    """The text of a SELECT, and for each column of its result whether it may be NULL."""

    text: str
    nullable: tuple[bool, ...]


def insertable_select(select: exp.Expr, catalog: Catalog, on_name: OnName) -> InsertedSelect:
    """Checks the SELECT of a continuous INSERT. Raises SqlError if rows can leave its result."""
    numbered = with_numbered_aliases(select)
    node = bind(WholeQuery(this=numbered.copy()), catalog, on_name)
    if not append_only(node):
        raise error_at(
            numbered,
            "rows of this query can be deleted later, so they cannot be inserted into a table",
            hint="put Istream(…) around its select list to insert the rows that enter, or make it a view",
        )
    return InsertedSelect(text_of(numbered), tuple(field.nullable for field in visible(node)))


def table_rows_query(inserted: InsertedSelect, supplied: Sequence[str], table: Table) -> str:
    """The text of the query for a table's rows. The SELECT supplies the columns `supplied`; the others have their
    default. The query casts values to the types of the table, keeps only the last row of each key, and refuses rows
    with NULL in a column that is NOT NULL."""
    names = {column: f"value {number}" for number, column in enumerate(supplied)}
    not_null = {column for column, nullable in zip(supplied, inserted.nullable, strict=True) if not nullable}
    defaults = {column: f"({text})" for column, text in table.defaults.items()}
    values = {**defaults, **{column: _quoted(name) for column, name in names.items()}}
    cells = ", ".join(_cell(column, values.get(column.name, "NULL"), not_null) for column in table.source.columns)
    renamed, keys, listed = (", ".join(map(_quoted, each)) for each in (names.values(), table.keys, table.schema.names))
    cast = f'SELECT {cells} FROM ({inserted.text}) AS "given" ({renamed})'
    return f'SELECT {listed} FROM ({cast}) AS "rows" [PARTITION BY {keys} ROWS 1]'


def _cell(column: Column, value: str, not_null: Collection[str]) -> str:
    """The value of a column of the table; the SELECT never returns NULL for the columns `not_null`."""
    cast = f"CAST({value} AS {column.type})"
    checked = cast if column.nullable or column.name in not_null else f"NOT_NULL({cast})"
    return f"{checked} AS {_quoted(column.name)}"


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")
