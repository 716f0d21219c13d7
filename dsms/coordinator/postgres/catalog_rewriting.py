"""Rewrites a client's query of PostgreSQL's catalog for DuckDB: the syntax tree, except for the names of relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlglot
from sqlglot import exp

from dsms.coordinator.postgres.catalog_arrays import with_arrays
from dsms.coordinator.postgres.catalog_columns import SCHEMAS
from dsms.coordinator.postgres.catalog_functions import NAME_OF, OID_OF
from dsms.coordinator.postgres.session_values import function_name, session_value

#: Returns the OID of the object of a kind (`regclass`, `regtype`, `regnamespace`) with this name. Raises SqlError if
#: there is none.
OidOf = Callable[[str, str], int]
_POSTGRES: Final = "postgres"
#: Types of PostgreSQL by name, as DuckDB's; those that are not listed are texts here.
_CASTS: Final = {
    "oid": "BIGINT", "xid": "BIGINT", "cid": "BIGINT", "int2": "SMALLINT", "int4": "INT", "int8": "BIGINT",
    "float4": "REAL", "float8": "DOUBLE", "bool": "BOOLEAN", "numeric": "DECIMAL", "timestamptz": "TIMESTAMPTZ",
    "cardinal_number": "BIGINT", "int2vector": "BIGINT[]", "oidvector": "BIGINT[]", "_text": "VARCHAR[]",
    "_name": "VARCHAR[]", "_int2": "BIGINT[]", "_oid": "BIGINT[]",
}  # fmt: skip
#: Types whose values are OIDs that are shown as names.
_NAMED_OIDS: Final = ("regclass", "regnamespace", "regtype")
#: Types of functions, whose values are names here.
_FUNCTION_TYPES: Final = ("regproc", "regprocedure")
#: Functions that return a value of such a type, or NULL.
_LOOKUPS: Final = {f"to_{kind}": kind for kind in _NAMED_OIDS}
_COLUMNS: Final = frozenset(
    column for relations in SCHEMAS.values() for columns in relations.values() for column in columns.split()
)
#: The columns that name functions.
_FUNCTIONS_IN: Final = ("typinput", "typoutput", "typreceive", "typsend")
#: Columns of PostgreSQL's type int2vector or oidvector: their items are counted from 0.
VECTORS: Final = ("indkey", "indclass", "indoption", "indcollation", "proargtypes")
#: Names of functions of PostgreSQL that have another name in DuckDB.
_FUNCTION_NAMES: Final = {
    **dict.fromkeys(("json_build_object", "jsonb_build_object"), "json_object"),
}
#: Times of the statement, which DuckDB would take for columns.
_NOW: Final = {exp.CurrentTimestamp: "now", exp.CurrentDate: "today", exp.Localtimestamp: "current_localtimestamp"}
#: Functions that return rows in FROM; others return one value.
_ROW_FUNCTIONS: Final = ("generate_series", "generate_subscripts", "unnest")
#: A function that is read as a relation of the catalog.
_KEYWORDS: Final = "pg_get_keywords"
#: The rows of the function that returns the options of a foreign object.
_OPTIONS: Final = "SELECT CAST(NULL AS TEXT) AS option_name, CAST(NULL AS TEXT) AS option_value WHERE FALSE"


def rewritten(query: exp.Query, user: str, oid_of: OidOf) -> exp.Query:
    """The query in DuckDB's terms. Its columns have the names that PostgreSQL would give them."""
    made = exp.Subquery(this=query.copy())  # a parent for the query, which may itself be replaced
    for step in (_with_names, _without_schemas, _with_operators, with_arrays, _with_items_from_1,
                 _with_functions_in_from, _with_function_names, _with_times):  # fmt: skip
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
        if dot.name.lower() not in SCHEMAS and dot.this.name.lower() in SCHEMAS:
            dot.replace(_parsed(dot.expression) if isinstance(dot.expression, exp.Func) else dot.expression)
    for listed in reversed(list(query.find_all(exp.JSONArrayAgg))):
        collected = exp.Anonymous(this="list", expressions=[listed.this])
        listed.replace(exp.Anonymous(this="to_json", expressions=[collected]))
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
        if bracket.this.name.lower() in VECTORS:
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
        if function_name(call) == "pg_options_to_table":
            table.replace(exp.maybe_parse(_OPTIONS, into=exp.Select, dialect=_POSTGRES).subquery(name))
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


def _with_function_names(query: exp.Expr) -> None:
    """A column that names a function is compared with the name of a function, not with its OID."""
    for equal in query.find_all(exp.EQ):
        for side, other in (("this", equal.expression), ("expression", equal.this)):
            column = equal.args[side]
            if column.name.lower() == "oid" and isinstance(column, exp.Column) and _names_function(other):
                column.set("this", exp.to_identifier("proname"))


def _names_function(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in _FUNCTIONS_IN


def _with_times(query: exp.Expr) -> None:
    for time in list(query.find_all(*_NOW)):
        time.replace(exp.Anonymous(this=_NOW[type(time)]))


def _with_casts(query: exp.Expr, oid_of: OidOf) -> None:
    for cast in reversed(list(query.find_all(exp.Cast))):
        name = _type_name(cast.to)
        if name in _NAMED_OIDS:
            cast.replace(_shown(cast, name, _named_oid(cast.this, name, oid_of)))
        elif name in _FUNCTION_TYPES:
            cast.replace(_function(cast, oid_of))
        elif name == "oid" and _names_function(cast.this):
            cast.replace(exp.func(OID_OF, exp.convert("regproc"), cast.this, dialect="duckdb"))
        elif isinstance(cast.to, exp.ObjectIdentifier) or cast.to.this in (exp.DType.USERDEFINED, exp.DType.NAME):
            cast.set("to", exp.DataType.build(_CASTS.get(name, "VARCHAR"), dialect="duckdb"))
    for call in reversed(list(query.find_all(exp.Anonymous))):
        if (kind := _LOOKUPS.get(call.name.lower())) is not None and _is_shown(call):
            call.replace(exp.func(NAME_OF, exp.convert(kind), call.copy(), dialect="duckdb"))


def _type_name(kind: exp.Expr) -> str:
    """The name of a type, without its schema, in small letters."""
    if isinstance(kind, exp.DataType) and kind.this == exp.DType.USERDEFINED:
        return str(kind.args["kind"].name).lower()
    return kind.sql(_POSTGRES).partition("(")[0].lower()


def _named_oid(named: exp.Expr, kind: str, oid_of: OidOf) -> exp.Expr:
    """The OID that is cast to a type of named OIDs, or that of the object that a text names."""
    if isinstance(named, exp.Literal) and named.is_string and not named.name.isdigit():
        return exp.convert(oid_of(kind, named.name))
    if named.is_int or (isinstance(named, exp.Column) and f"{named.name.lower()}#" in _COLUMNS):
        return exp.cast(named, "BIGINT")
    return exp.func(OID_OF, exp.convert(kind), named, dialect="duckdb")


def _shown(cast: exp.Expr, kind: str, number: exp.Expr) -> exp.Expr:
    """An OID, which is shown as the name of its object where it becomes an output or a text."""
    return exp.func(NAME_OF, exp.convert(kind), number, dialect="duckdb") if _is_shown(cast) else number


def _is_shown(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return parent.to.is_type(*exp.DataType.TEXT_TYPES) or parent.to.this == exp.DType.NAME
    return isinstance(parent, exp.Alias | exp.Select | exp.DPipe)


def _function(cast: exp.Cast, oid_of: OidOf) -> exp.Expr:
    """The name of a function, without its schema; where it is cast to a number, its OID."""
    named = cast.this
    if not (isinstance(named, exp.Literal) and named.is_string):
        return exp.func(NAME_OF, exp.convert("regproc"), named, dialect="duckdb") if named.name == "oid" else named
    if isinstance(cast.parent, exp.Cast) and _type_name(cast.parent.to) in ("oid", "int4", "int8"):
        return exp.convert(oid_of("regproc", named.name.partition("(")[0]))
    return exp.convert(named.name.rpartition(".")[2])
