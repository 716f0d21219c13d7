"""A parameter of a request that is an instant."""

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from dsms.model.instants import given_instant
from operators.core.errors import UserError


def _parsed(value: Any) -> int:
    try:
        return given_instant(value)
    except UserError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error


#: A whole number, or a time in ISO 8601.
InstantParameter = Annotated[
    int,
    BeforeValidator(_parsed),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]}),
]
