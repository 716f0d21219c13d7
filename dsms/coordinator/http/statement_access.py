"""Who may run which statements."""

from __future__ import annotations

from dsms.coordinator.http.access import Forbidden
from dsms.model.roles import Role, allows
from dsms.registration.statements import kind_of_statement, parse


def check_statements(sql: str, role: Role) -> None:
    """Raises Forbidden for the first statement that needs a higher role, before any statement has run."""
    for number, statement in enumerate(parse(sql), 1):
        needed = kind_of_statement(statement).role
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")
