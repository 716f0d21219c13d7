"""Infers the types of parameters, as OIDs in pg_type, from where they stand in a statement, as PostgreSQL does."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.coordinator.postgres.catalog_arrays import with_numbers_for_oids
from dsms.coordinator.postgres.catalog_columns import SCHEMAS, schema_of
from dsms.coordinator.postgres.parameters import parameters_in
from dsms.coordinator.postgres.wire_types import ARRAYS, ELEMENTS, INTERVAL, JSON, TEXT, type_of
from dsms.model.types import parse_type, type_sql
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from operators.core.errors import SqlError, UserError

#: The columns of the objects that a client may read, by the names of the objects in small letters.
Schemas = Mapping[str, pa.Schema]
_BIGINT, _OID = 20, 26
#: A parameter that is cast to an array of OIDs, which sqlglot does not parse.
_OIDS = re.compile(r"\$(\d+)\s*::\s*(?:pg_catalog\.)?oid\s*\[", re.IGNORECASE)
_COMPARING = (
    exp.Predicate, exp.EQ, exp.NEQ, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.ArrayOverlaps,
    exp.ArrayContainsAll,
)  # fmt: skip
#: Types to which only an interval is added: date, timestamp, timestamptz.
_MOMENTS = (1082, 1114, 1184)


def parameter_types(sql: str, given: Sequence[int], schemas: Callable[[], Schemas]) -> tuple[int, ...]:
    """The types of all parameters: those that the client has given (0: none), else the inferred ones, else text. Calls
    `schemas` only if a type has to be inferred.

    >>> schema = pa.schema([("k", pa.int32()), ("price", pa.float64())])
    >>> parameter_types("SELECT $1::bigint FROM t WHERE k = $2 AND price > $3", (), lambda: {"t": schema})
    (20, 23, 701)
    """
    count = max(parameters_in(sql), len(given))
    types = {number: oid for number, oid in enumerate(given, 1) if oid}
    if len(types) < count:
        types = _inferred(sql, schemas) | types
    return tuple(types.get(number, TEXT.oid) for number in range(1, count + 1))


def _inferred(sql: str, schemas: Callable[[], Schemas]) -> dict[int, int]:
    with suppress(SqlError), readable_sqlglot_errors():
        tree = sqlglot.parse_one(with_numbers_for_oids(sql), dialect="postgres")
        columns = _Columns(tree, _with_catalog(schemas()) if tree.find(exp.Table) else {})
        found = {int(number): ARRAYS[_OID] for number in _OIDS.findall(sql)}
        for parameter in tree.find_all(exp.Parameter):
            if (name := parameter.name).isdecimal() and (oid := _type_at(parameter, columns)) is not None:
                found.setdefault(int(name), oid)
        return found
    return {}


def _with_catalog(schemas: Schemas) -> Schemas:
    """The schemas of objects, and those of the relations of PostgreSQL's catalog."""
    return ChainMap(dict(schemas), _catalog())


@cache
def _catalog() -> dict[str, pa.Schema]:
    return {name: schema_of(columns) for known in reversed(SCHEMAS.values()) for name, columns in known.items()}


class _Columns:
    """The columns that a statement may name."""

    def __init__(self, tree: exp.Expr, schemas: Schemas) -> None:
        tables = [table for table in tree.find_all(exp.Table) if table.name.lower() in schemas]
        self._schemas = schemas
        self._by_alias = {table.alias_or_name.lower(): schemas[table.name.lower()] for table in tables}

    def type_of(self, column: exp.Column) -> int | None:
        """The type of a column; None if it is unknown or ambiguous."""
        qualifier = column.table.lower()
        chosen = self._by_alias.get(qualifier)
        read = [chosen] if chosen is not None else [] if qualifier else list(self._by_alias.values())
        types = {_oid(field.type) for schema in read for field in schema if field.name.lower() == column.name.lower()}
        return types.pop() if len(types) == 1 else None

    def inserted(self, insert: exp.Insert) -> list[int | None]:
        """The types of the columns that INSERT fills, in its order."""
        target = insert.this
        table = target.this if isinstance(target, exp.Schema) else target
        schema = self._schemas.get(table.name.lower(), pa.schema([]))
        by_name = {field.name.lower(): _oid(field.type) for field in schema}
        if isinstance(target, exp.Schema):
            return [by_name.get(each.name.lower()) for each in target.expressions]
        return list(by_name.values())


def _type_at(parameter: exp.Expr, columns: _Columns) -> int | None:
    """The type that the place of a parameter, or of an expression like -$1, demands."""
    parent = parameter.parent
    match parent:
        case exp.Cast():
            return _cast_type(parent)
        case exp.Any() | exp.All():
            return _array_at(parent, columns)
        case exp.Anonymous() if parent.name.lower() == "all":
            return _array_at(parent, columns)
        case exp.Paren() | exp.Neg():
            return _type_at(parent, columns)
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return _BIGINT
        case exp.Like() | exp.ILike():
            return TEXT.oid
        case exp.Tuple() | exp.Select() if (at := _place(parameter, parent)) is not None:
            return _inserted_type(parent, at, columns)
        case _ if isinstance(parent, _COMPARING):
            others = (each for each in parent.iter_expressions() if each is not parameter)
            found = next((oid for each in others if (oid := _type_of(each, columns)) is not None), None)
            return INTERVAL if found in _MOMENTS and isinstance(parent, exp.Add | exp.Sub) else found
        case _:
            return None


def _array_at(quantified: exp.Expr, columns: _Columns) -> int | None:
    """The type of the array of ANY or ALL, whose elements are compared with the other operand."""
    element = _type_at(quantified, columns)
    return None if element is None else ARRAYS.get(element)


def _type_of(other: exp.Expr, columns: _Columns) -> int | None:
    match other.unnest():
        case exp.Column() as column:
            return columns.type_of(column)
        case exp.Cast() as cast:
            return _cast_type(cast)
        case exp.Any() | exp.All() as quantified:
            return ELEMENTS.get(_type_of(quantified.this, columns) or 0)
        case _:
            return None


def _cast_type(cast: exp.Cast) -> int | None:
    if cast.to.this == exp.DType.INTERVAL or isinstance(cast.to, exp.Interval):
        return INTERVAL
    if isinstance(cast.to, exp.ObjectIdentifier):
        return _OID if cast.to.name.lower() == "oid" else None
    with suppress(UserError):
        return _oid(parse_type(cast.to.sql("duckdb")))
    return None


def _place(parameter: exp.Expr, parent: exp.Expr) -> int | None:
    return next((at for at, each in enumerate(parent.expressions) if each is parameter), None)


def _inserted_type(row: exp.Expr, at: int, columns: _Columns) -> int | None:
    """The type of the column that a value of VALUES or of a SELECT fills."""
    insert = row.parent.parent if isinstance(row, exp.Tuple) and row.parent is not None else row.parent
    if not isinstance(insert, exp.Insert):
        return None
    types = columns.inserted(insert)
    return types[at] if at < len(types) else None


def _oid(kind: pa.DataType) -> int:
    """The type of a parameter for values of a type; structs, and lists of lists or structs, are given as text."""
    oid = type_of(type_sql(kind)).oid
    return TEXT.oid if oid == JSON.oid else oid
