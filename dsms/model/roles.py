"""The roles of the coordinator's callers."""

from __future__ import annotations

from typing import Literal

Role = Literal["reader", "writer", "administrator"]
#: From the least to the most privileged.
ROLES: tuple[Role, ...] = ("reader", "writer", "administrator")


def allows(role: Role, needed: Role) -> bool:
    """Whether a role includes the needed one.

    >>> allows("administrator", "writer"), allows("reader", "writer")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)
