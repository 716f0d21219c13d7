"""The roles of the fields of a stored object: what a field is about, and what becomes of its value when the object is
replaced. A field states its role in its type, so all code that copies or resets fields agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_type_hints

import msgspec

#: What a field is about. "declared": what the statement says. "placement": the fragments that run the object, and the
#: queries with which it shares operators. "life": what has happened to it since it was created. "quality": how exact
#: its results are.
Group = Literal["declared", "placement", "life", "quality"]
#: Where the new query of CREATE OR REPLACE takes the value of a field from. "restated": from its own statement, or the
#: default of the clause. "fixed": from the replaced query; a statement with another value is refused. "carried": from
#: the replaced query, unless its own statement gives a value. "reset": the default of the field, until the value is
#: determined again.
OnReplacement = Literal["restated", "fixed", "carried", "reset"]


@dataclass(frozen=True)
class FieldRole:
    """The role of a field, given in its type: `weight: Annotated[float, FieldRole("declared", "carried")]`."""

    group: Group
    on_replacement: OnReplacement = "restated"
    #: Whether CREATE OR REPLACE compares the field: if no compared field differs, it changes nothing.
    compared: bool = False
    #: Whether the field gets its default when the number of fragments that run the query changes.
    reset_on_division: bool = False
    #: Whether `Former`, which stores an earlier version of a query, has a field of the same name.
    in_former: bool = False


@cache
def roles_of(kind: type[msgspec.Struct]) -> dict[str, FieldRole]:
    """The role of each field that states one, in the order of the fields.

    >>> from dsms.model.objects import Query, Stream
    >>> roles_of(Query)["topic"].on_replacement, roles_of(Stream)
    ('fixed', {})
    """
    hints = get_type_hints(kind, include_extras=True)
    metadata = {name: getattr(hints[name], "__metadata__", ()) for name in kind.__struct_fields__}
    return {name: role for name, parts in metadata.items() for role in parts if isinstance(role, FieldRole)}


def names_of(kind: type[msgspec.Struct], wanted: Callable[[FieldRole], bool]) -> tuple[str, ...]:
    """The names of the fields for whose role `wanted` is true, in the order of the fields."""
    return tuple(name for name, role in roles_of(kind).items() if wanted(role))


def defaults_of(kind: type[msgspec.Struct], wanted: Callable[[FieldRole], bool]) -> dict[str, Any]:
    """The default values of the fields for whose role `wanted` is true, by name."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {name: defaults[name] for name in names_of(kind, wanted)}
