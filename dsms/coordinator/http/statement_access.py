"""Who may run which statements."""

from __future__ import annotations

from collections.abc import Callable

from dsms.coordinator.http.access import Forbidden
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.roles import Role, allows
from dsms.model.statements import Statement
from dsms.registration.statements import kind_of_statement, parse

Meaning = Callable[[Statement], Statement]


def check_statements(
    sql: str, role: Role, meaning: Meaning = lambda statement: statement, limits: Limits = NO_LIMITS
) -> None:
    """Raises Forbidden for the first statement that needs a higher role, before any statement has run. `meaning` gives
    a statement as the catalog makes it be understood."""
    for number, statement in enumerate(parse(sql, limits), 1):
        needed = kind_of_statement(meaning(statement)).role
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")
