"""Parses CREATE TABLE, INSERT, UPDATE and DELETE."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from dsms.model import statements as st
from dsms.model.position import error_at, position_of
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.queries import parse_query
from dsms.sql.parser.table_elements import TableElements, read_element

_Parsed = TypeVar("_Parsed", bound=exp.Expr)
#: Clauses of other systems by sqlglot's names: their SQL words, and what to write instead.
_PARTS = {
    "with_": ("WITH", "put the query into FROM, USING or a subquery"),
    "overwrite": ("OVERWRITE", "DELETE the rows first"),
    "order": ("ORDER BY", "WHERE key IN (SELECT key … ORDER BY … LIMIT …)"),
    "limit": ("LIMIT", "WHERE key IN (SELECT key … ORDER BY … LIMIT …)"),
    "default": ("DEFAULT VALUES", "VALUES (DEFAULT, …)"),
}


def create_table(cursor: Cursor, _: st.Name | None) -> st.CreateTable | st.CreateTableAs:
    """`CREATE TABLE name (column type constraints, …, [PRIMARY KEY (columns)], [CHECK (predicate)])`, or `CREATE TABLE
    name [(PRIMARY KEY (columns))] AS select`."""
    name = cursor.object_name("table name")
    elements = TableElements(name)
    if cursor.accept("AS"):
        return _as_select(cursor, elements)
    cursor.expect("(")
    read_element(cursor, elements)
    while cursor.accept(","):
        read_element(cursor, elements)
    cursor.expect(")")
    if not elements.columns and cursor.accept("AS"):
        return _as_select(cursor, elements)
    cursor.end()
    defaults, checks = tuple(elements.defaults), tuple(elements.checks)
    return st.CreateTable(name, elements.not_null(), tuple(elements.keys), cursor.sql, defaults, checks)


def _as_select(cursor: Cursor, elements: TableElements) -> st.CreateTableAs:
    if elements.checks:
        cursor.fail(
            "CREATE TABLE AS does not support CHECK", "create the table with its columns, then INSERT INTO … SELECT"
        )
    text, _ = cursor.rest_without("")
    select = parse_query(text, cursor.limits)
    if not isinstance(select, exp.Query):
        raise error_at(select, "expected a query after AS", hint="CREATE TABLE name AS SELECT …")
    return st.CreateTableAs(elements.table, tuple(elements.keys), select, text.strip(), cursor.sql)


def insert(cursor: Cursor, _: st.Name | None) -> st.Insert:
    """`INSERT INTO table [(columns)] VALUES … | SELECT … [ON CONFLICT [(keys)] DO NOTHING | DO UPDATE SET …]`."""
    tree = parse_whole_statement(
        cursor, exp.Insert, ("this", "expression", "conflict", "returning"), ("INSERT", "INTO")
    )
    target = tree.this
    columns = tuple(located_name(column) for column in target.expressions) if isinstance(target, exp.Schema) else ()
    table = target.this if isinstance(target, exp.Schema) else target
    if tree.expression is None:
        raise error_at(tree, "INSERT needs rows", hint="add VALUES (…), … or SELECT …")
    conflict = tree.args.get("conflict")
    handled = _conflict(conflict) if conflict else None
    return st.Insert(table_of(table), columns, tree.expression, cursor.sql, handled, _returning(tree))


def _conflict(node: exp.Expr) -> st.Conflict:
    if node.args.get("constraint") or node.args.get("duplicate"):
        raise error_at(
            node, "ON CONFLICT can only name the columns of the primary key", hint="ON CONFLICT (key columns) DO …"
        )
    keys = tuple(located_name(key) for key in node.args.get("conflict_keys") or ())
    changes = tuple((target_of(change), change.expression) for change in node.expressions)
    where = node.args.get("where")
    if changes and not keys:
        raise error_at(node, "ON CONFLICT DO UPDATE needs the key", hint="ON CONFLICT (key columns) DO UPDATE SET …")
    return st.Conflict(keys, changes, where.this if where else None)


def update(cursor: Cursor, _: st.Name | None) -> st.Update:
    """`UPDATE table [AS alias] SET column = expression, … [FROM items] [WHERE predicate]`."""
    tree = parse_whole_statement(
        cursor, exp.Update, ("this", "expressions", "from_", "where", "returning"), ("UPDATE",)
    )
    changes = tuple((target_of(change), change.expression) for change in tree.expressions)
    where, source = tree.args.get("where"), tree.args.get("from_")
    sources = (source.this,) if source else ()
    condition, alias = where.this if where else None, tree.this.alias or None
    return st.Update(table_of(tree.this), changes, condition, cursor.sql, alias, sources, _returning(tree))


def delete(cursor: Cursor, _: st.Name | None) -> st.Delete:
    """`DELETE FROM table [AS alias] [USING items] [WHERE predicate]`."""
    tree = parse_whole_statement(cursor, exp.Delete, ("this", "using", "where", "returning"), ("DELETE", "FROM"))
    where, sources = tree.args.get("where"), tuple(tree.args.get("using") or ())
    condition, alias = where.this if where else None, tree.this.alias or None
    return st.Delete(table_of(tree.this), condition, cursor.sql, alias, sources, _returning(tree))


def _returning(tree: exp.Expr) -> tuple[exp.Expr, ...]:
    """The expressions after RETURNING. Raises SqlError for subqueries in them."""
    clause = tree.args.get("returning")
    shown = tuple(clause.expressions) if clause is not None else ()
    if inner := next((query for item in shown for query in item.find_all(exp.Query)), None):
        raise error_at(inner, "a subquery in RETURNING is not supported")
    return shown


def truncate(cursor: Cursor, _: st.Name | None) -> st.Delete:
    """`TRUNCATE [TABLE] table`: DELETE of all rows."""
    cursor.accept("TABLE")
    return st.Delete(cursor.rest_as_name("table"), None, cursor.sql)


def parse_whole_statement(
    cursor: Cursor, kind: type[_Parsed], parts: tuple[str, ...], words: tuple[str, ...]
) -> _Parsed:
    """Parses the whole statement with sqlglot, including its first `words`, which the cursor has already consumed.
    Raises SqlError if it is not of this kind, or has clauses other than `parts`."""
    cursor.at -= len(words)
    tree = parse_query(cursor.rest_without("")[0], cursor.limits)
    if not isinstance(tree, kind):
        raise error_at(tree, f"not a valid {' '.join(words)} statement")
    for part, value in tree.args.items():
        if value and part not in parts:
            node = value if isinstance(value, exp.Expr) else tree
            name, instead = _PARTS.get(part, (part.upper(), ""))
            raise error_at(node, f"{name} in {words[0]} is not supported", hint=instead)
    return tree


def target_of(change: exp.Expr) -> st.Name:
    """The column that `column = expression` sets. Raises SqlError for other nodes."""
    if not isinstance(change, exp.EQ) or not isinstance(change.this, exp.Column) or change.this.table:
        raise error_at(change, "SET needs column = expression")
    return located_name(change.this)


def table_of(node: exp.Expr) -> st.Name:
    """The name of the table that a statement changes. Raises SqlError for anything but a name."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        raise error_at(node, f'"{node.sql(dialect=Dsms)}" is not a table name')
    return located_name(node)


def located_name(node: exp.Expr) -> st.Name:
    """The name of a node, with its location."""
    return st.Name(node.name, st.TextLocation(*position_of(node)))
