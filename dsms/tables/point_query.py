"""SELECTs that only look up rows by key: `SELECT a, b FROM v WHERE k = 7`, or `k IN (7, 8)`.

The law: the rows of a point query are those of the SELECT from whose text it was made, in any order. It is made for the
shape of a text, so that it is parsed once, and holds for all values of the literals that `wanted_keys` can encode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from sqlglot import exp

from dsms.model.statement_result import EncodedRows
from dsms.tables.equal_values import INTEGERS, EqualValues, conjuncts, equal_values
from dsms.tables.not_finite import float_columns, not_finite
from dsms.tables.one_time_query import OneTimeQuery
from dsms.tables.text_shape import literal_value
from dsms.tables.times_in_range import check_times_in_columns

#: The clauses of a SELECT that a point query may have.
_CLAUSES = {"expressions", "from_", "where"}
#: DuckDB's names of the types of columns whose values are written alike here and in a SELECT's process.
_TYPES: Mapping[pa.DataType, str] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}


@dataclass(frozen=True)
class PointQuery:
    """The object of the catalog, the selected columns with their places in the rows and the names and types that they
    have in the answer, and the numbers of the literals that each key column equals, negative after a minus."""

    name: str
    columns: tuple[str, ...]
    places: tuple[int, ...]
    shown: tuple[str, ...]
    types: tuple[str, ...]
    markers: EqualValues

    def wanted(self, values: Sequence[int | str]) -> EqualValues:
        """The values of the key columns, from those of the literals."""
        return {key: tuple(literal_value(each, values) for each in markers) for key, markers in self.markers.items()}

    def answer(self, rows: pa.Table | Sequence[tuple[Any, ...]]) -> EncodedRows:
        """The rows, encoded as a SELECT's process writes them; given as a table or as the values of all columns."""
        if not isinstance(rows, pa.Table):
            shown = [[row[place] for place in self.places] for row in rows]
            return EncodedRows(msgspec.json.encode(shown), len(shown))
        selected = rows.select(list(self.columns))
        check_times_in_columns(selected)
        values = list(zip(*(column.to_pylist() for column in selected.columns), strict=True))
        infinite = list(not_finite(values, float_columns(self.types)))
        return EncodedRows(msgspec.json.encode(values), len(values), infinite)


def point_query_of(asked: OneTimeQuery, schema: pa.Schema, keys: Sequence[str], literals: int) -> PointQuery | None:
    """The point query of a query over one object with a key, whose text has this number of literals, numbered as by
    `with_numbers`; None if it is not one."""
    select = asked.query
    if not keys or asked.as_of is not None or len(asked.objects) != 1 or not isinstance(select, exp.Select):
        return None
    ((alias, name),) = asked.objects.items()
    selected = _selected(select, alias, schema)
    markers = equal_values(asked).get(name, {})
    if selected is None or set(markers) != {key.lower() for key in keys}:
        return None
    if not all(_comparable(schema.field(key).type, markers[key.lower()]) for key in keys) or _narrowed(select, schema):
        return None
    used = sorted(abs(int(marker)) for each in markers.values() for marker in each)
    if used != list(range(1, literals + 1)) or len(list(conjuncts(select.args["where"].this))) != len(markers):
        return None
    types = [_TYPES.get(schema.field(column).type) for column in selected.values()]
    if None in types:
        return None
    places = tuple(map(schema.names.index, selected.values()))
    return PointQuery(name, tuple(selected.values()), places, tuple(selected), tuple(filter(None, types)), markers)


def _comparable(kind: pa.DataType, markers: Sequence[int | str]) -> bool:
    """Whether the language compares a column of this type with such literals: no text with a number."""
    return pa.types.is_signed_integer(kind) or all(isinstance(each, str) for each in markers)


def _narrowed(select: exp.Select, schema: pa.Schema) -> bool:
    """Whether a cast may refuse the value of a literal, as one to TINYINT: then the SELECT has to compute the cast."""
    widest = max((kind.bit_width for kind in schema.types if pa.types.is_signed_integer(kind)), default=64)
    casts = [each.to for each in select.args["where"].find_all(exp.Cast)]
    return any(kind.is_type(name) for kind in casts for name, bits in INTEGERS.items() if bits < widest)


def _selected(select: exp.Select, alias: str, schema: pa.Schema) -> dict[str, str] | None:
    """The selected columns by their names in the answer; None for other expressions, names that are not spelled as in
    the schema or are not distinct, and SELECTs with other clauses."""
    if any(value for clause, value in select.args.items() if clause not in _CLAUSES):
        return None
    table = select.args["from_"].this if select.args.get("from_") else None
    if not isinstance(table, exp.Table) or table.name != alias or table.args.get("only"):
        return None
    if [type(each) for each in select.expressions] == [exp.Star]:
        return None if any(select.expressions[0].args.values()) else {column: column for column in schema.names}
    shown = {each.alias_or_name: _column(each.unalias(), table.alias) for each in select.expressions}
    if len(shown) < len(select.expressions) or not {*shown.values()} <= {*schema.names}:
        return None
    return {name: column for name, column in shown.items() if column is not None}


def _column(node: exp.Expr, alias: str) -> str | None:
    """The name of a column of the only table; None for any other expression."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        return None
    return node.name if node.table.lower() in ("", alias.lower()) else None
