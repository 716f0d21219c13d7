"""Rewrites a client's query of PostgreSQL's catalog for DuckDB: the syntax tree, except for the names of relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlglot
from sqlglot import exp

from dsms.coordinator.postgres.session_values import function_name, session_value

#: Returns the OID of the object of a kind (`regclass`, `regtype`, `regnamespace`) with this name. Raises SqlError if
#: there is none.
OidOf = Callable[[str, str], int]
_SCHEMAS: Final = ("pg_catalog", "information_schema")
_POSTGRES: Final = "postgres"
#: Types of PostgreSQL by name, as DuckDB's; those that are not listed are texts here.
_CASTS: Final = {
    "oid": "BIGINT", "xid": "BIGINT", "cid": "BIGINT", "int2": "SMALLINT", "int4": "INT", "int8": "BIGINT",
    "float4": "REAL", "float8": "DOUBLE", "bool": "BOOLEAN", "numeric": "DECIMAL", "timestamptz": "TIMESTAMPTZ",
    "cardinal_number": "BIGINT", "int2vector": "BIGINT[]", "oidvector": "BIGINT[]", "_text": "VARCHAR[]",
    "_name": "VARCHAR[]", "_int2": "BIGINT[]", "_oid": "BIGINT[]",
}  # fmt: skip
#: Types whose values are OIDs that are shown as names, with the relation and the column of the names.
_NAMED_OIDS: Final = {
    "regclass": ("pg_class", "relname"),
    "regnamespace": ("pg_namespace", "nspname"),
    "regtype": ("pg_type", "typname"),
}
#: Columns of PostgreSQL's type int2vector or oidvector: their items are counted from 0.
_VECTORS: Final = ("indkey", "indclass", "indoption", "indcollation", "proargtypes")
#: Names of functions of PostgreSQL that have another name in DuckDB.
_FUNCTION_NAMES: Final = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
#: Functions that return rows in FROM; others return one value.
_ROW_FUNCTIONS: Final = ("generate_series", "generate_subscripts", "unnest")
#: A function that is read as a relation of the catalog.
_KEYWORDS: Final = "pg_get_keywords"


def rewritten(query: exp.Query, user: str, oid_of: OidOf) -> exp.Query:
    """The query in DuckDB's terms. Its columns have the names that PostgreSQL would give them."""
    made = exp.Subquery(this=query.copy())  # a parent for the query, which may itself be replaced
    for step in (_with_names, _without_schemas, _with_operators, _with_items_from_1, _with_functions_in_from):
        step(made)
    _with_session_values(made, user)
    _with_casts(made, oid_of)
    found: exp.Query = made.this
    return found


def _with_names(query: exp.Expr) -> None:
    for select in query.find_all(exp.Select):
        projections = [
            exp.alias_(each.copy(), output_name(each), quoted=True)
            if not isinstance(each, exp.Alias | exp.Column | exp.Star)
            else each
            for each in select.expressions
        ]
        select.set("expressions", projections)


def output_name(projection: exp.Expr) -> str:
    """The name that PostgreSQL gives to a column without one.

    >>> [output_name(each) for each in sqlglot.parse_one("SELECT a::int, lower(b), 1", dialect="postgres").selects]
    ['a', 'lower', '?column?']
    """
    match projection:
        case exp.Column() | exp.Alias():
            return projection.output_name
        case exp.Dot() if isinstance(projection.expression, exp.Identifier):
            return str(projection.name)
        case exp.Dot():
            return output_name(projection.expression)
        case exp.Cast():
            name = output_name(projection.this)
            return _type_name(projection.to) if name == "?column?" else name
        case exp.Paren() | exp.Bracket() | exp.Collate():
            return output_name(projection.this)
        case exp.Subquery() if projection.selects:
            return output_name(projection.selects[0])
        case exp.Case() | exp.Exists() | exp.Array():
            return str(projection.key)
        case exp.Boolean():
            return "bool"
        case exp.Func() if not isinstance(projection, exp.Binary | exp.Connector):
            return function_name(projection)
        case _:
            return "?column?"


def _without_schemas(query: exp.Expr) -> None:
    """Removes the schema before functions and columns. A function is parsed again, as if it had been written so."""
    for dot in reversed(list(query.find_all(exp.Dot))):
        if dot.name.lower() not in _SCHEMAS and dot.this.name.lower() in _SCHEMAS:
            dot.replace(_parsed(dot.expression) if isinstance(dot.expression, exp.Func) else dot.expression)
    for call in query.find_all(exp.Anonymous):
        call.set("this", _FUNCTION_NAMES.get(call.name.lower(), call.this))
    for column in query.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _parsed(expression: exp.Expr) -> exp.Expr:
    return sqlglot.parse_one(expression.sql(_POSTGRES), dialect=_POSTGRES)


def _with_operators(query: exp.Expr) -> None:
    """Writes `OPERATOR(pg_catalog.~)` as `~`, and removes collations: texts are compared by their bytes."""
    for operator in reversed(list(query.find_all(exp.Operator))):
        symbol = operator.args["operator"].rpartition(".")[2]
        written = sqlglot.parse_one(f"1 {symbol} 2", dialect=_POSTGRES)
        for literal, operand in zip(list(written.find_all(exp.Literal)), _operands(operator), strict=True):
            literal.replace(operand)
        operator.replace(exp.Paren(this=written))
    for collation in reversed(list(query.find_all(exp.Collate))):
        collation.replace(collation.this)


def _operands(operator: exp.Operator) -> tuple[exp.Expr, exp.Expr]:
    return operator.this, operator.expression


def _with_items_from_1(query: exp.Expr) -> None:
    for bracket in query.find_all(exp.Bracket):
        if bracket.this.name.lower() in _VECTORS:
            bracket.set("expressions", [exp.Add(this=each, expression=exp.convert(1)) for each in bracket.expressions])


def _with_functions_in_from(query: exp.Expr) -> None:
    """In PostgreSQL the column of a function in FROM has the name of its alias, and any function may be there."""
    for table in list(query.find_all(exp.Table)):
        if not isinstance(table.this, exp.Func):
            continue
        call, name = _parsed(table.this), table.alias or function_name(table.this)
        if function_name(call) == _KEYWORDS:
            table.replace(exp.alias_(exp.to_table(f"pg_catalog.{_KEYWORDS}"), name, table=True, quoted=True))
            continue
        names = table.args["alias"].columns if table.args.get("alias") else []
        column = names[0] if names else exp.to_identifier(name, quoted=True)
        if function_name(call) in _ROW_FUNCTIONS:
            table.set("db", None)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=[column.copy()]))
        else:
            selected = exp.select(exp.alias_(call, column.copy()))
            table.replace(selected.subquery(exp.to_identifier(name, quoted=True)))
    for rows in query.find_all(exp.Unnest):
        alias = rows.args.get("alias")
        if alias is not None and alias.this and not alias.columns:
            alias.set("columns", [alias.this.copy()])


def _with_session_values(query: exp.Expr, user: str) -> None:
    for node in list(query.find_all(exp.Func, exp.Column)):
        if (value := session_value(node, user)) is not None:
            node.replace(value)


def _with_casts(query: exp.Expr, oid_of: OidOf) -> None:
    for cast in reversed(list(query.find_all(exp.Cast))):
        name = _type_name(cast.to)
        if name in _NAMED_OIDS:
            cast.replace(_named_oid(cast, name, oid_of))
        elif isinstance(cast.to, exp.ObjectIdentifier) or cast.to.this in (exp.DType.USERDEFINED, exp.DType.NAME):
            cast.set("to", exp.DataType.build(_CASTS.get(name, "VARCHAR"), dialect="duckdb"))


def _type_name(kind: exp.Expr) -> str:
    """The name of a type, without its schema, in small letters."""
    if isinstance(kind, exp.DataType) and kind.this == exp.DType.USERDEFINED:
        return str(kind.args["kind"].name).lower()
    return kind.sql(_POSTGRES).partition("(")[0].lower()


def _named_oid(cast: exp.Cast, kind: str, oid_of: OidOf) -> exp.Expr:
    """The OID of the object that a text names. An OID stays one, except where it becomes an output or a text."""
    if isinstance(cast.this, exp.Literal) and cast.this.is_string and not cast.this.name.isdigit():
        return exp.convert(oid_of(kind, cast.this.name))
    number = exp.cast(cast.this, "BIGINT")
    if not isinstance(cast.parent, exp.Alias | exp.Cast | exp.Select):
        return number
    relation, column = _NAMED_OIDS[kind]
    named = exp.to_identifier("named oids", quoted=True)
    source = exp.alias_(exp.to_table(f"pg_catalog.{relation}"), named, table=True)
    inner = exp.column(exp.to_identifier("oid"), table=named.copy())
    return exp.select(exp.column(column, table=named.copy())).from_(source).where(inner.eq(number)).subquery()
