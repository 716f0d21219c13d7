"""Binding: a parsed SELECT and a catalog give a logical plan. sqlglot's trees end here."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Query, Source, Stream
from dsms.plan import logical
from dsms.sql.dialect import Dsms
from dsms.sql.expressions import bind_expression
from dsms.sql.position import error_at, position_of
from dsms.sql.scope import Scope
from dsms.sql.statements import Place
from operators.errors import SqlError
from operators.expressions import Column, Expression, type_name
from operators.tagger import TS

_RELATION_OF = ("R", "ℜ")
_SUPPORTED = {"expressions", "from_", "where", "kind"}
_CLAUSE_NAMES = {
    "joins": "JOIN", "group": "GROUP BY", "having": "HAVING", "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET",
    "distinct": "DISTINCT", "with_": "WITH", "windows": "WINDOW", "laterals": "LATERAL", "qualify": "QUALIFY",
}  # fmt: skip

_TABLE_PARTS = {"db": "a qualified name", "sample": "TABLESAMPLE", "joins": "JOIN", "pivots": "PIVOT"}


def bind(select: exp.Expr, catalog: Catalog) -> logical.Node:
    """The logical plan of a SELECT over one stream or view; views are replaced by their own plans.

    Raises SqlError for unknown names, type errors and every construct that is not supported, with its position.
    """
    if not isinstance(select, exp.Select):
        raise _refusal(select, select.key.upper().replace("_", " "))
    for clause, value in select.args.items():
        if value and clause not in _SUPPORTED:
            raise _refusal(value[0] if isinstance(value, list) else value, _CLAUSE_NAMES.get(clause, clause.upper()))
    if select.args.get("from_") is None:
        raise _refusal(select, "SELECT without FROM")
    relation, alias = _relation(select.args["from_"].this, catalog)
    uses_ts = any(column.name.upper() == TS for column in select.find_all(exp.Column))
    node = _with_ts(relation, alias, select) if uses_ts else relation
    scope = Scope(logical.schema(node), alias)
    if where := select.args.get("where"):
        node = logical.Filter(node, _predicate(where.this, scope))
    return logical.Project(node, _outputs(select, scope, logical.visible(relation)))


def plan_of(name: str, catalog: Catalog) -> logical.Node:
    """The plan of a stream, view or query of the catalog."""
    found = catalog.find(name)
    if isinstance(found, Stream):
        source = catalog.find(found.source)
        assert isinstance(source, Source)
        return logical.Tag(source, found.name, found.keys)
    if isinstance(found, Source):
        raise SqlError(f'"{found.name}" is a source, not a stream', hint=f"CREATE STREAM … OVER {found.name} KEY …")
    return bind(sqlglot.parse_one(found.select, read=Dsms), catalog)


def names_in(select: exp.Expr) -> list[str]:
    """The streams and views that a SELECT reads."""
    return [_name_of(table)[0] for table in select.find_all(exp.Table)]


def _relation(table: exp.Expr, catalog: Catalog) -> tuple[logical.Node, str]:
    table = _checked_from(table)
    name, at = _name_of(table)
    place = Place(*position_of(at))
    found = catalog.find(name, place)
    if isinstance(found, Query) and found.kind == "query":
        raise place.error(f'"{name}" is a query, not a view', "make it a view: CREATE STREAMED VIEW … AS …")
    if isinstance(found, Source):
        raise place.error(f'"{name}" is a source, not a stream', f"CREATE STREAM … OVER {name} KEY …")
    return plan_of(name, catalog), table.alias or found.name


def _checked_from(table: exp.Expr) -> exp.Table:
    """Refuses by name what stands in FROM beside a name and an alias."""
    if isinstance(table, exp.Bracket):
        raise _refusal(table, f"{table.this.name}[…] in FROM")
    if not isinstance(table, exp.Table):
        raise _refusal(table, "a subquery in FROM")
    for part, value in table.args.items():
        if value and part not in ("this", "alias"):
            construct = _TABLE_PARTS.get(part, part.upper())
            raise _refusal(value[0] if isinstance(value, list) else value, f"{construct} in FROM")
    if table.alias_column_names:
        raise _refusal(table, "a list of column names in FROM")
    return table


def name_of(table: exp.Table) -> str:
    """The stream or view that a table reference reads: S in `S`, `R(S)` and `ℜ(S)`."""
    return _name_of(table)[0]


def _name_of(table: exp.Table) -> tuple[str, exp.Expr]:
    """The stream's name in `S`, `R(S)` or `ℜ(S)`, and the node that spells it."""
    inner = table.this
    if isinstance(inner, exp.Identifier):
        return _digits(inner.name), inner
    arguments = getattr(inner, "expressions", [])
    if isinstance(inner, exp.Anonymous) and inner.name.upper() in _RELATION_OF and len(arguments) == 1:
        argument = arguments[0]
        if isinstance(argument, exp.Column) and not argument.table:
            return _digits(argument.name), argument
    raise _refusal(table, f'"{inner.sql()}" in FROM')


def _digits(name: str) -> str:
    """Subscript digits count as digits, as in declarations."""
    return unicodedata.normalize("NFKC", name)


def _with_ts(node: logical.Node, alias: str, select: exp.Expr) -> logical.Node:
    """The relation with its TS column: a view's is the instant of its own last change, so it needs a key or append-
    only rows."""
    if isinstance(node, logical.Tag):
        return node
    if any(name.upper() == TS for name in logical.schema(node).names):
        return node
    if not logical.keys(node) and not logical.append_only(node):
        at = next(column for column in select.find_all(exp.Column) if column.name.upper() == TS)
        message = f'TS of "{alias}" is ambiguous: its rows are deleted and have no key'
        raise error_at(at, message, hint="select the key columns in the view")
    return logical.Restamp(node, alias)


def _predicate(node: exp.Expr, scope: Scope) -> Expression:
    predicate = bind_expression(node, scope)
    if str(predicate.type) not in ("bool", "null"):
        raise error_at(node, f"WHERE needs a BOOLEAN, not {type_name(predicate.type)}")
    return predicate


def _outputs(select: exp.Select, scope: Scope, visible: pa.Schema) -> tuple[tuple[str, Expression], ...]:
    outputs: list[tuple[str, Expression]] = []
    for number, node in enumerate(select.expressions, 1):
        for name, output in _output(node, scope, visible, number):
            if any(name.lower() == other.lower() for other, _ in outputs):
                raise error_at(node, f'two columns are named "{name}"', hint="rename one with AS")
            if name.startswith("__"):
                raise error_at(node, f'column name "{name}" is reserved')
            outputs.append((name, output))
    if not outputs:
        raise _refusal(select, "SELECT without columns")
    return tuple(outputs)


def _output(node: exp.Expr, scope: Scope, visible: pa.Schema, number: int) -> list[tuple[str, Expression]]:
    star = node.this if isinstance(node, exp.Column) else node
    if isinstance(star, exp.Star):
        _check_star(node, star, scope)
        return [(field.name, Column(field.name, field.type, field.nullable)) for field in visible]
    if isinstance(node, exp.Alias):
        return [(node.alias, _typed(node.this, scope))]
    bound = _typed(node, scope)
    return [(bound.name if isinstance(bound, Column) else f"column{number}", bound)]


def _typed(node: exp.Expr, scope: Scope) -> Expression:
    bound = bind_expression(node, scope)
    if pa.types.is_null(bound.type):
        raise error_at(node, "NULL has no type here", hint="say CAST(NULL AS …)")
    return bound


def _check_star(node: exp.Expr, star: exp.Star, scope: Scope) -> None:
    if changed := [part for part, value in star.args.items() if value]:
        raise _refusal(node, f"* {changed[0].strip('_').upper()}")
    if isinstance(node, exp.Column) and node.table.lower() != (scope.alias or "").lower():
        raise error_at(node, f'"{node.table}" not found', hint=f"have: {scope.alias}")


def _refusal(node: exp.Expr, construct: str) -> SqlError:
    return error_at(node, f"{construct} is not supported here", hint="have: SELECT … FROM one stream or view WHERE …")
