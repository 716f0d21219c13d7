"""The roles of those who call the coordinator."""

from __future__ import annotations

from typing import Literal

Role = Literal["reader", "writer", "administrator"]
#: From the role that may do least to the one that may do everything.
ROLES: tuple[Role, ...] = ("reader", "writer", "administrator")


def allows(role: Role, needed: Role) -> bool:
    """Whether a role includes another.

    >>> allows("administrator", "writer"), allows("reader", "writer")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)
