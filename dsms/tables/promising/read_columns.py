"""Which columns of a stream a one-time SELECT may read, as far as its text shows."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp


def columns_read(query: exp.Expr, columns: pa.Schema) -> pa.Schema:
    """Those of the columns that a query may read: those that it names anywhere, for any object, or all of them if it
    reads some without naming them.

    >>> import sqlglot
    >>> columns = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    >>> texts = "SELECT count(*) FROM s WHERE A > 1", "SELECT * FROM s", "SELECT t.x FROM s NATURAL JOIN t"
    >>> [columns_read(sqlglot.parse_one(text), columns).names for text in texts]
    [['a'], ['a', 'b', 'c'], ['a', 'b', 'c']]
    """
    if any(_reads_all(node) for node in query.walk()) or _rows_as_values(query):
        return columns
    named = {identifier.name.lower() for identifier in query.find_all(exp.Identifier)}
    return pa.schema([column for column in columns if column.name.lower() in named])


def _reads_all(node: exp.Expr) -> bool:
    """Whether a part of a query reads columns that it does not name."""
    match node:
        case exp.Star():
            return not isinstance(node.parent, exp.Count)
        case exp.Join():
            return (node.args.get("method") or "").upper() == "NATURAL"
        case exp.TableAlias():
            return bool(node.columns) and isinstance(node.parent, exp.Table)
    return isinstance(node, exp.Pivot | exp.Columns)


def _rows_as_values(query: exp.Expr) -> bool:
    """Whether a query reads rows as values, by the name of their object."""
    objects = {table.alias_or_name.lower() for table in query.find_all(exp.Table)}
    return any(not column.table and column.name.lower() in objects for column in query.find_all(exp.Column))
