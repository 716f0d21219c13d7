"""CREATE TABLE, INSERT, UPDATE and DELETE."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.model.position import error_at, position_of
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.declarations import column, names
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.queries import parse_query

_Parsed = TypeVar("_Parsed", bound=exp.Expr)
_PARTS = {
    "with_": "WITH",
    "overwrite": "OVERWRITE",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "default": "DEFAULT VALUES",
}


def create_table(cursor: Cursor, _: st.Name | None) -> st.CreateTable | st.CreateTableAs:
    """`CREATE TABLE name (column type [NOT NULL] [PRIMARY KEY], …, [PRIMARY KEY (columns)])`, or `CREATE TABLE name
    [(PRIMARY KEY (columns))] AS select`."""
    name = cursor.name("table name")
    columns: list[st.ColumnDefinition] = []
    keys: list[st.Name] = []
    if cursor.accept("AS"):
        return _as_select(cursor, name, keys)
    cursor.expect("(")
    while True:
        _element(cursor, columns, keys)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    if not columns and cursor.accept("AS"):
        return _as_select(cursor, name, keys)
    cursor.end()
    return st.CreateTable(name, tuple(_not_null(columns, keys)), tuple(keys), cursor.sql)


def _as_select(cursor: Cursor, name: st.Name, keys: list[st.Name]) -> st.CreateTableAs:
    text, _ = cursor.rest_without("")
    select = parse_query(text, cursor.limits)
    if not isinstance(select, exp.Query):
        raise error_at(select, "a query is expected behind AS", hint="CREATE TABLE name AS SELECT …")
    return st.CreateTableAs(name, tuple(keys), select, text.strip(), cursor.sql)


def _element(cursor: Cursor, columns: list[st.ColumnDefinition], keys: list[st.Name]) -> None:
    """A column, or a PRIMARY KEY clause of the table."""
    at = cursor.at
    inline: list[st.Name] = []
    if cursor.accept("PRIMARY KEY"):
        cursor.expect("(")
        inline.extend(names(cursor, "key column"))
        cursor.expect(")")
    else:
        tokens, is_key = _without_key(cursor.until(",", ")"))
        columns.append(column(tokens, cursor))
        inline.extend([columns[-1].name] if is_key else [])
    if inline and keys:
        cursor.at = at
        cursor.fail("a table has only one PRIMARY KEY", "for several columns use PRIMARY KEY (a, b)")
    keys.extend(inline)


def _without_key(tokens: list[Token]) -> tuple[list[Token], bool]:
    """The tokens without `PRIMARY KEY`, and whether it was among them: one token of sqlglot, before or after NOT
    NULL."""
    kept = [token for token in tokens if token.text.upper() != "PRIMARY KEY"]
    return kept, len(kept) < len(tokens)


def _not_null(columns: list[st.ColumnDefinition], keys: list[st.Name]) -> list[st.ColumnDefinition]:
    for key in keys:
        if not any(column.name.text.lower() == key.text.lower() for column in columns):
            have = ", ".join(column.name.text for column in columns)
            raise key.place.error(f'key column "{key.text}" not found', f"have: {have}")
    of_key = {key.text.lower() for key in keys}
    return [st.ColumnDefinition(c.name, c.type, c.nullable and c.name.text.lower() not in of_key) for c in columns]


def insert(cursor: Cursor, _: st.Name | None) -> st.Insert:
    """`INSERT INTO table [(columns)] VALUES … | SELECT … [ON CONFLICT [(keys)] DO NOTHING | DO UPDATE SET …]`."""
    tree = _tree(cursor, exp.Insert, ("this", "expression", "conflict", "returning"), ("INSERT", "INTO"))
    target = tree.this
    columns = tuple(_name(column) for column in target.expressions) if isinstance(target, exp.Schema) else ()
    table = target.this if isinstance(target, exp.Schema) else target
    if tree.expression is None:
        raise error_at(tree, "INSERT needs rows", hint="add VALUES (…), … or SELECT …")
    conflict = tree.args.get("conflict")
    handled = _conflict(conflict) if conflict else None
    return st.Insert(_table(table), columns, tree.expression, cursor.sql, handled, _returning(tree))


def _conflict(node: exp.Expr) -> st.Conflict:
    if node.args.get("constraint") or node.args.get("duplicate"):
        raise error_at(node, "a conflict is one of the primary key", hint="ON CONFLICT (key columns) DO …")
    keys = tuple(_name(key) for key in node.args.get("conflict_keys") or ())
    changes = tuple((_target(change), change.expression) for change in node.expressions)
    where = node.args.get("where")
    if changes and not keys:
        raise error_at(node, "ON CONFLICT DO UPDATE needs the key", hint="ON CONFLICT (key columns) DO UPDATE SET …")
    return st.Conflict(keys, changes, where.this if where else None)


def update(cursor: Cursor, _: st.Name | None) -> st.Update:
    """`UPDATE table [AS alias] SET column = expression, … [FROM items] [WHERE predicate]`."""
    tree = _tree(cursor, exp.Update, ("this", "expressions", "from_", "where", "returning"), ("UPDATE",))
    changes = tuple((_target(change), change.expression) for change in tree.expressions)
    where, source = tree.args.get("where"), tree.args.get("from_")
    sources = (source.this,) if source else ()
    condition, alias = where.this if where else None, tree.this.alias or None
    return st.Update(_table(tree.this), changes, condition, cursor.sql, alias, sources, _returning(tree))


def delete(cursor: Cursor, _: st.Name | None) -> st.Delete:
    """`DELETE FROM table [AS alias] [USING items] [WHERE predicate]`."""
    tree = _tree(cursor, exp.Delete, ("this", "using", "where", "returning"), ("DELETE", "FROM"))
    where, sources = tree.args.get("where"), tuple(tree.args.get("using") or ())
    condition, alias = where.this if where else None, tree.this.alias or None
    return st.Delete(_table(tree.this), condition, cursor.sql, alias, sources, _returning(tree))


def _returning(tree: exp.Expr) -> tuple[exp.Expr, ...]:
    """What follows RETURNING."""
    clause = tree.args.get("returning")
    shown = tuple(clause.expressions) if clause is not None else ()
    if inner := next((query for item in shown for query in item.find_all(exp.Query)), None):
        raise error_at(inner, "a subquery in RETURNING is not supported")
    return shown


def truncate(cursor: Cursor, _: st.Name | None) -> st.Delete:
    """`TRUNCATE [TABLE] table`: DELETE of all rows."""
    cursor.accept("TABLE")
    return st.Delete(cursor.last_name("table"), None, cursor.sql)


def _tree(cursor: Cursor, kind: type[_Parsed], parts: tuple[str, ...], words: tuple[str, ...]) -> _Parsed:
    """The whole statement as parsed by sqlglot. Raises SqlError for clauses other than `parts`."""
    cursor.at -= len(words)
    tree = parse_query(cursor.rest_without("")[0], cursor.limits)
    if not isinstance(tree, kind):
        raise error_at(tree, f"not a valid {' '.join(words)} statement")
    for part, value in tree.args.items():
        if value and part not in parts:
            at = value if isinstance(value, exp.Expr) else tree
            raise error_at(at, f"{_PARTS.get(part, part.upper())} in {words[0]} is not supported")
    return tree


def _target(change: exp.Expr) -> st.Name:
    if not isinstance(change, exp.EQ) or not isinstance(change.this, exp.Column) or change.this.table:
        raise error_at(change, "SET needs column = expression")
    return _name(change.this)


def _table(node: exp.Expr) -> st.Name:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        raise error_at(node, f'"{node.sql(dialect=Dsms)}" is not a table name')
    return _name(node)


def _name(node: exp.Expr) -> st.Name:
    return st.Name(node.name, st.Place(*position_of(node)))
