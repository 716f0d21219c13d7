"""Checks the constraints of a source against its columns and other sources."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa

from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Constraint
from dsms.model.objects import Source
from dsms.model.types import type_sql
from operators.core.errors import UserError

_HINT = "register that source with CONSTRAINT CLUSTERED BY {} WITHIN k, which bounds how long its records are kept"


def checked_constraints(source: Source, catalog: Catalog, may_read: Callable[[str], bool]) -> tuple[Constraint, ...]:
    """The checked constraints of a source, with names as declared. Raises UserError; its hint lists only names that the
    caller may read."""
    return tuple(_checked(constraint, source, catalog, may_read) for constraint in source.constraints)


def _checked(constraint: Constraint, source: Source, catalog: Catalog, may_read: Callable[[str], bool]) -> Constraint:
    what = _what(constraint)
    field = _column(source, constraint.column, what)
    if constraint.kind == "ordered" and not _is_ordered(field.type):
        kind = type_sql(field.type)
        raise UserError(f'{what} "{field.name}" needs an integer, TIMESTAMP or DATE column, not {kind}')
    if constraint.kind != "ordered" and not (_is_ordered(field.type) or pa.types.is_string(field.type)):
        kind = type_sql(field.type)
        raise UserError(f'{what} "{field.name}" needs an integer, VARCHAR, TIMESTAMP or DATE column, not {kind}')
    if constraint.k is not None and constraint.k >= 2**62:
        raise UserError(f'{what} "{field.name}": WITHIN must be below 2^62')
    spelled = msgspec.structs.replace(constraint, column=field.name)
    return _referring(spelled, field, catalog, may_read) if constraint.kind == "references" else spelled


def _referring(
    constraint: Constraint, field: pa.Field[pa.DataType], catalog: Catalog, may_read: Callable[[str], bool]
) -> Constraint:
    """The constraint with names as declared. Raises UserError unless the referenced column exists, is clustered and has
    the same type."""
    other = catalog.get(constraint.other or "")
    if not isinstance(other, Source):
        readable = (known.name for known in catalog.sources() if may_read(known.name))
        have = "have: " + (", ".join(readable) or "none")
        raise UserError(f'REFERENCES: "{constraint.other}" is not a source', hint=have)
    referenced_field = _column(other, constraint.theirs or "", "REFERENCES")
    if referenced_field.type != field.type:
        referring = f'"{field.name}" is {type_sql(field.type)}'
        target = f'"{referenced_field.name}" of source "{other.name}" is {type_sql(referenced_field.type)}'
        raise UserError(f"REFERENCES needs columns of the same type: {referring}, {target}")
    if not any(
        promise.kind == "clustered" and promise.column == referenced_field.name for promise in other.constraints
    ):
        hint = _HINT.format(referenced_field.name)
        raise UserError(f'REFERENCES: "{referenced_field.name}" of source "{other.name}" is not clustered', hint=hint)
    return msgspec.structs.replace(constraint, other=other.name, theirs=referenced_field.name)


def _column(source: Source, name: str, what: str) -> pa.Field[pa.DataType]:
    column = next((field for field in source.schema if field.name.lower() == name.lower()), None)
    if column is None:
        have = "have: " + ", ".join(source.schema.names)
        raise UserError(f'{what}: column "{name}" not found in source "{source.name}"', hint=have)
    return column


def _what(constraint: Constraint) -> str:
    return "REFERENCES" if constraint.kind == "references" else f"{constraint.kind.upper()} BY"


def _is_ordered(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_temporal(type_))
