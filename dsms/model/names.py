"""Full names of objects: `schema.name`, and the bare name for an object of the schema public."""

from __future__ import annotations

from typing import Final

PUBLIC: Final = "public"


def full_name(schema: str, name: str) -> str:
    """The full name of an object of a schema.

    >>> full_name("Sales", "Orders"), full_name("PUBLIC", "Orders")
    ('sales.Orders', 'Orders')
    """
    return name if schema.lower() == PUBLIC else f"{schema.lower()}.{name}"


def bare_name(name: str) -> str:
    """A full name without its schema: what the object is called in a query that gives it no alias.

    >>> bare_name("sales.Orders"), bare_name("Orders")
    ('Orders', 'Orders')
    """
    return name.rpartition(".")[2]


def schema_prefix(name: str) -> str:
    """The part of a full name before its last dot, in small letters; "" for a bare name.

    >>> schema_prefix("sales.Orders"), schema_prefix("Orders")
    ('sales', '')
    """
    return name.rpartition(".")[0].lower()
