"""Values as the standard library's json has them, for comparisons with records that the product writes."""

from __future__ import annotations

import base64
import math

import pyarrow as pa


def readable(value, type_):
    """What the standard library's json reads for a stored value."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [readable(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: readable(value[field.name], field.type) for field in type_}
    if pa.types.is_floating(type_) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if pa.types.is_decimal(type_):
        return f"{value:f}"
    return base64.b64encode(value).decode() if pa.types.is_binary(type_) else value
