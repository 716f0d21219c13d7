"""What a field of a stored object is: it states its group, and what becomes of it when the object changes, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_type_hints

import msgspec

#: What its statement says; where and with what others it runs; what has happened to it since; how exact its results
#: are.
Group = Literal["declared", "placement", "life", "quality"]
#: The value in a query that replaces another one: as its own statement says or implies (restated); as in the other one,
#: and another value is refused (fixed); as in the other one, unless its own statement says otherwise (carried); the
#: default, until it is derived again (reset).
OnReplacement = Literal["restated", "fixed", "carried", "reset"]


@dataclass(frozen=True)
class FieldRole:
    """The role of a field, given in its type: `weight: Annotated[float, FieldRole("declared", "carried")]`."""

    group: Group
    on_replacement: OnReplacement = "restated"
    #: Whether a replacement that differs only in this field is one; otherwise CREATE OR REPLACE changes nothing.
    compared: bool = False
    #: Whether it gets its default when the query is assigned to another number of fragments.
    reset_on_division: bool = False
    #: Whether a former version of the query keeps it, under the same name.
    in_former: bool = False


@cache
def roles_of(kind: type[msgspec.Struct]) -> dict[str, FieldRole]:
    """The role of each field that states one, in the order of the fields.

    >>> from dsms.model.objects import Query, Stream
    >>> roles_of(Query)["topic"].on_replacement, roles_of(Stream)
    ('fixed', {})
    """
    hints = get_type_hints(kind, include_extras=True)
    stated = {name: getattr(hints[name], "__metadata__", ()) for name in kind.__struct_fields__}
    return {name: role for name, marks in stated.items() for role in marks if isinstance(role, FieldRole)}


def names_of(kind: type[msgspec.Struct], wanted: Callable[[FieldRole], bool]) -> tuple[str, ...]:
    """The names of the fields whose role is wanted, in the order of the fields."""
    return tuple(name for name, role in roles_of(kind).items() if wanted(role))


def defaults_of(kind: type[msgspec.Struct], wanted: Callable[[FieldRole], bool]) -> dict[str, Any]:
    """The default values of the fields whose role is wanted, by name."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {name: defaults[name] for name in names_of(kind, wanted)}
