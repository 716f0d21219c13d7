"""UUID (RFC 9562): stored as text in its canonical form, so it is compared, grouped and sorted as that text."""

import re
import uuid

import polars as pl
import pyarrow as pa

from operators.core.distinct_type import DistinctType
from operators.expressions.types.scalar_type import ScalarType

_FORM = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CANONICAL = re.compile(_FORM)


def _from_text(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    text = value.str.strip_chars().str.to_lowercase()
    return pl.when(text.str.contains(f"^{_FORM}$")).then(text)


def _to_text(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    return value


def _read(value: object) -> str | None:
    text = str(value).lower() if isinstance(value, str | uuid.UUID) else ""
    return text if _CANONICAL.fullmatch(text) else None


UUID = ScalarType(
    "UUID",
    DistinctType("UUID", pa.string()),
    pl.String(),
    "uuid",
    {"type": "string", "logicalType": "uuid"},
    frozenset({"string"}),
    converts={("text", "uuid"): _from_text, ("uuid", "text"): _to_text},
    read=_read,
    form="UUID (36 characters)",
    summary="string of 36 lower-case characters, as an extension type",
)
