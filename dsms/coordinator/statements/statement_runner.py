"""Runs scripts of statements, if the caller may run them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dsms.coordinator.audit.audit_log import audited
from dsms.coordinator.catalog.system_objects import refuse_reserved
from dsms.coordinator.results.missing_instant import awaited_instant
from dsms.coordinator.statements.cluster_context import ClusterContext
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.tables.point_selects import Lookup
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.principal import Caller, Forbidden, Principal
from dsms.model.roles import Role, allows
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import named_registries, named_secrets
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from dsms.statements.registry import kind_of_statement, parse, resolved_statement, run
from operators.core.errors import DsmsError


@dataclass(frozen=True)
class Permitted:
    """A statement that a role permits: as it is `written`, and as it is to be run (`meant`) with a catalog.

    A script is refused as a whole if the role does not permit one of its statements as it is meant before the script
    begins. A statement before it, or another client, may change what it means: after CREATE STREAM S, a SELECT FROM S
    is no longer a read but creates a query. Therefore what is run is `at` the catalog of its turn: resolved and checked
    again if the catalog is another one.
    """

    number: int
    written: st.Statement
    meant: st.Statement
    catalog: Catalog
    role: Role

    @classmethod
    def of(cls, number: int, statement: st.Statement, catalog: Catalog, role: Role) -> Permitted:
        """Statement `number` of a script. Raises Forbidden if it needs a higher role. Only administrators may name a
        secret, since a statement that names a secret determines where it is sent."""
        with readable_sqlglot_errors():
            meant = resolved_statement(statement, catalog)
        needed = "administrator" if named_secrets(meant) else kind_of_statement(meant).role
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")
        return cls(number, statement, meant, catalog, role)

    @property
    def changes(self) -> bool:
        """Whether it changes something, as it is meant."""
        return not kind_of_statement(self.meant).reads_only

    def at(self, catalog: Catalog) -> Permitted:
        """The statement as it is meant with a catalog. Raises Forbidden if it needs a higher role with it."""
        return self if catalog is self.catalog else Permitted.of(self.number, self.written, catalog, self.role)


def permitted(statements: Iterable[st.Statement], catalog: Catalog, role: Role) -> list[Permitted]:
    """The statements of a script. Raises Forbidden for the first one that needs a higher role."""
    return [Permitted.of(number, statement, catalog, role) for number, statement in enumerate(statements, 1)]


class StatementRunner:
    """Runs scripts, each in order. Scripts of several clients run concurrently; the next statement of any client sees
    what a statement has changed."""

    def __init__(self, parts: ClusterParts) -> None:
        self._parts = parts

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs the statements in order and returns their results. A failing statement raises; the statements before it
        stay in effect. If one needs a higher role, none is run. When `cancelled` is set, nobody waits for the results
        any more, and a SELECT fails."""
        if (looked_up := self._looked_up(sql, caller, cancelled or threading.Event())) is not None:
            return [looked_up]
        statements = parse(sql, self._parts.limits)
        script = permitted(statements, self._parts.store.catalog, caller.principal.role)
        parts = self._parts.by(caller, cancelled)
        return [_run(statement, parts) for statement in script]

    def lookup_of(self, sql: str, caller: Caller) -> Lookup | None:
        """The look-up by key in a text, if a text that differs only in values of literals has run before; otherwise
        None."""
        select = self._parts.tables.point_select(sql, known=True)
        return None if select is None else Lookup(sql, select, caller)

    def look_up_all(self, lookups: Sequence[Lookup]) -> list[StatementResult | DsmsError]:
        """The answers to look-ups in one view, at one instant."""
        began, audit = time.monotonic(), self._parts.audit
        try:
            self._parts.store.settle()
            found = self._parts.tables.look_up_all([(each.select, each.caller.principal) for each in lookups])
        except DsmsError as error:
            found = [error] * len(lookups)
        seconds = time.monotonic() - began
        for each, answer in zip(lookups, found, strict=True):
            failure = answer if isinstance(answer, DsmsError) else None
            audit.ended(each.caller, each.sql, "failed" if failure else "done", str(failure or ""), seconds)
        return found

    def _looked_up(self, sql: str, caller: Caller, cancelled: threading.Event) -> StatementResult | None:
        """The answer to a SELECT that looks up rows by key; None for any other statement."""
        if (select := self._parts.tables.point_select(sql)) is None:
            return None
        with audited(self._parts.audit, caller, sql):
            self._parts.store.settle()
            look_up = partial(self._parts.tables.look_up, select, caller.principal, cancelled)
            return awaited_instant(look_up, caller.wait_s, cancelled)


def _run(statement: Permitted, parts: ClusterParts) -> StatementResult:
    with audited(parts.audit, parts.caller, str(getattr(statement.written, "sql", ""))) as announce:
        now = statement.at(parts.store.catalog)
        if now.changes:
            announce()
            now = now.at(parts.store.catalog)  # another client may have changed it meanwhile
        with readable_sqlglot_errors():
            _check(now.meant, parts)
            answer = partial(run, now.meant, ClusterContext(parts))
            return awaited_instant(answer, parts.caller.wait_s, parts.cancelled)


def _check(statement: st.Statement, parts: ClusterParts) -> None:
    """Raises Forbidden or SqlError for a statement that the caller may not run, whatever the caller's role."""
    principal = parts.caller.principal
    check_named(statement, principal)
    check_code(statement, parts)
    for url in named_registries(statement):
        parts.registry_hosts.check(url, principal.role)
    refuse_reserved(statement, parts.store.catalog)


def check_code(statement: st.Statement, parts: ClusterParts) -> None:
    """Raises Forbidden for a statement that deploys Python code, unless the coordinator was started with permission for
    it. Code that was deployed before still runs."""
    if kind_of_statement(statement).deploys_code and not parts.python:
        hint = (
            "an administrator allows it by starting the coordinator with --python (DSMS_PYTHON=true; dsms up --python)"
        )
        raise Forbidden("this coordinator accepts no functions or aggregates in Python", hint=hint)


def check_named(statement: st.Statement, principal: Principal) -> None:
    """Raises Forbidden for a statement about an object that the principal may not read or change, whether or not the
    object exists. Other objects that the statement reads are checked when it is bound, other objects that it changes
    when the catalog changes."""
    kind = kind_of_statement(statement)
    for changed in kind.changed_names(statement):
        principal.check_write(changed.text)
    if (read := kind.read_name(statement)) is not None:
        principal.check_read(read.text)
