"""Converts SQL type names to Arrow types and back."""

import re
from functools import lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.model.position import error_at
from operators.core.errors import SqlError
from operators.expressions.rendering import type_name
from operators.expressions.types import BY_NAME, TYPES

_T = exp.DType

#: The names of the types for hints. DECIMAL, which has parameters, comes after DOUBLE.
_SCALARS = (f"{type_.name}, DECIMAL(p, s)" if type_.name == "DOUBLE" else type_.name for type_ in TYPES)
NAMES = f"{', '.join(_SCALARS)}, T[], ARRAY<T>, STRUCT<a T, …>, ROW(a T, …)"

_ROW = re.compile(r"ROW\s*[(<]", re.IGNORECASE)
_NULLABLE = re.compile(r"\s+(NOT\s+)?NULL$", re.IGNORECASE)
#: For types of other systems, a hint with a replacement.
_INSTEAD = {
    **dict.fromkeys(
        ("SERIAL", "BIGSERIAL", "SMALLSERIAL"),
        "use BIGINT and insert the numbers yourself; dsms does not generate them",
    ),
    "TIMESTAMPTZ": "use TIMESTAMP, which is UTC",
    "TIMESTAMPLTZ": "use TIMESTAMP, which is UTC",
    **dict.fromkeys(("TIME", "TIMETZ"), "use VARCHAR, or the microseconds of the day as BIGINT"),
    "INTERVAL": "intervals are constants; use BIGINT for lengths of time",
    **dict.fromkeys(("JSON", "JSONB"), "use VARCHAR, which the JSON functions accept"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINT", "UBIGINT"), "use the next larger signed type, or DECIMAL(20, 0)"),
    "MAP": "use STRUCT<a T, …> for known names, or an array of structs",
}


def parse_type(source: exp.Expr | str) -> pa.DataType:
    """The Arrow type of a SQL type, given as text or as a parsed node. Raises SqlError if the type is unknown.

    >>> parse_type("DECIMAL(9, 2)[]")
    ListType(list<item: decimal128(9, 2)>)
    >>> parse_type("ROW(a INT, b STRING)")
    StructType(struct<a: int32, b: string>)
    """
    return _parse_text(source.strip()) if isinstance(source, str) else _arrow_type(source)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> pa.DataType:
    text = _NULLABLE.sub("", text)  # the signatures of stored aggregates may end in it
    if _ROW.match(text):
        text = "STRUCT" + text[3:]
    if (scalar := BY_NAME.get(text.upper())) is not None:
        return scalar.arrow
    try:
        return _arrow_type(sqlglot.parse_one(text, read="duckdb", into=exp.DataType))
    except sqlglot.ParseError as error:
        raise SqlError(f'type "{text}" not found', hint=f"have: {NAMES}") from error


def type_sql(type_: pa.DataType) -> str:
    """The SQL name of an Arrow type; `parse_type` is the inverse.

    >>> type_sql(pa.struct([("a", pa.int32())]))
    'STRUCT(a INTEGER)'
    """
    return type_name(type_)


def _arrow_type(node: exp.Expr) -> pa.DataType:
    if not isinstance(node, exp.DataType):
        return _named_type(node, node.name)
    kind = node.this
    if kind in (_T.DECIMAL, _T.BIGDECIMAL):
        return _decimal(node)
    if kind in (_T.ARRAY, _T.LIST):
        if len(node.expressions) != 1:
            raise error_at(node, "an array needs the type of its elements", hint="for example ARRAY<INT> or INT[]")
        return pa.list_(_arrow_type(node.expressions[0]))
    if kind in (_T.STRUCT, _T.OBJECT):
        return _struct(node)
    name = str(node.args.get("kind") or (kind.value if isinstance(kind, exp.DType) else kind))
    return _named_type(node, name)


def _named_type(node: exp.Expr, name: str) -> pa.DataType:
    if (scalar := BY_NAME.get(name.upper())) is not None:
        return scalar.arrow
    raise error_at(node, f'type "{name}" not found', hint=_INSTEAD.get(name.upper(), f"have: {NAMES}"))


def _decimal(node: exp.DataType) -> pa.DataType:
    texts = [parameter.name for parameter in node.expressions]
    if not all(text.isascii() and text.isdigit() for text in texts) or len(texts) > 2:
        raise error_at(node, f"DECIMAL({', '.join(texts)}) is not a valid type", hint="for example DECIMAL(9, 2)")
    numbers = [int(text) for text in texts]
    precision, scale = (*numbers, 18, 3)[:2] if not numbers else (*numbers, 0)[:2]
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise error_at(
            node,
            f"DECIMAL({precision}, {scale}) is out of range",
            hint="the precision is 1 to 38, the scale 0 to the precision",
        )
    return pa.decimal128(precision, scale)


def _struct(node: exp.DataType) -> pa.DataType:
    fields = []
    for field in node.expressions:
        if not isinstance(field, exp.ColumnDef) or field.args.get("kind") is None:
            raise error_at(node, "every field of a struct needs a name and a type", hint="for example STRUCT<a INT>")
        fields.append(pa.field(field.name, _arrow_type(field.args["kind"])))
    return pa.struct(fields)
