"""Runs statements, each by the function for its kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dsms.coordinator.audit.audit_log import noted
from dsms.coordinator.catalog.system_objects import refuse_reserved
from dsms.coordinator.statements.catalog_changes import (
    change_catalog,
    drop,
    insert_stream,
    pause_or_resume,
    read_catalog,
    skip_record,
)
from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.other_statements import answer_control, replay, run_on_rows
from dsms.coordinator.statements.query_replacement import alter_query, replace_query
from dsms.model import statements as st
from dsms.model.principal import Caller, Forbidden, Principal
from dsms.model.roles import Role, allows
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import named_registries, named_secrets
from dsms.registration.continuous import resolved_statement
from dsms.registration.kinds.drop import Drop
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.registration.kinds.pause import SetPaused
from dsms.registration.kinds.replay import Replay
from dsms.registration.kinds.skip_record import SkipRecord
from dsms.registration.statement_kind import StatementKind
from dsms.registration.statements import STATEMENTS, kind_of_statement, parse
from dsms.sql.parser.understood import understood

#: Runs one statement and returns its result. If it raises, it has done nothing, or everything that is to be kept.
Run = Callable[[Any, StatementContext], StatementResult]

#: Statements with a function of their own: they write records, or they change the catalog and touch rows or wait until
#: executors follow the change.
_OWN: Mapping[type[st.Statement], Run] = {
    SetPaused: pause_or_resume,
    Drop: drop,
    InsertStream: insert_stream,
    Replay: replay,
    SkipRecord: skip_record,
    st.ReplaceQuery: replace_query,
    st.RepairQuery: replace_query,
    st.AlterQuery: alter_query,
}


def _runner(kind: StatementKind) -> Run:
    of_catalog: Run = read_catalog if kind.reads_only else change_catalog
    usual: Mapping[str, Run] = {"rows": run_on_rows, "runtime": answer_control}
    return _OWN.get(kind.statement) or usual.get(kind.subject, of_catalog)


#: The function that runs each kind of statement.
RUNNERS: Mapping[type[st.Statement], Run] = {kind.statement: _runner(kind) for kind in STATEMENTS}


class StatementRunner:
    """Runs scripts, each in order. Scripts of several clients run concurrently; the next statement of any client sees
    what a statement has changed."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs the statements in order and returns their results. A failing statement raises; the statements before it
        stay in effect. If one needs a higher role, none is run. When `cancelled` is set, nobody waits for the results
        any more, and a SELECT fails."""
        statements, catalog = parse(sql, self._context.limits), self._context.store.catalog
        with understood():
            check_roles((resolved_statement(statement, catalog) for statement in statements), caller.principal.role)
        context = self._context.by(caller, cancelled)
        return [_run(statement, context) for statement in statements]


def _run(statement: st.Statement, context: StatementContext) -> StatementResult:
    changes = not kind_of_statement(statement).reads_only
    with noted(context.audit, context.caller, str(getattr(statement, "sql", "")), changes=changes):
        return _carried_out(statement, context)


def _carried_out(statement: st.Statement, context: StatementContext) -> StatementResult:
    with understood():
        statement, principal = resolved_statement(statement, context.store.catalog), context.caller.principal
        check_roles([statement], principal.role)  # its meaning may have changed since the script began
        check_named(statement, principal)
        check_code(statement, context)
        for url in named_registries(statement):
            context.registry_hosts.check(url, principal.role)
        refuse_reserved(statement, context.store.catalog)
        return RUNNERS[type(statement)](statement, context)


def check_roles(statements: Iterable[st.Statement], role: Role) -> None:
    """Raises Forbidden for the first statement that needs a higher role. Only administrators may name a secret, since a
    statement that names a secret determines where it is sent."""
    for number, statement in enumerate(statements, 1):
        needed = "administrator" if named_secrets(statement) else kind_of_statement(statement).role
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")


def check_code(statement: st.Statement, context: StatementContext) -> None:
    """Raises Forbidden for a statement that deploys Python code, unless the coordinator was started with permission for
    it. Code that was deployed before still runs."""
    if kind_of_statement(statement).deploys_code and not context.python:
        hint = (
            "an administrator allows it by starting the coordinator with --python (DSMS_PYTHON=true; dsms up --python)"
        )
        raise Forbidden("this coordinator takes no functions and aggregates in Python", hint=hint)


def check_named(statement: st.Statement, principal: Principal) -> None:
    """Raises Forbidden for a statement about an object that the principal may not read or change, whether or not the
    object exists. Other objects that the statement reads are checked when it is bound, other objects that it changes
    when the catalog changes."""
    kind = kind_of_statement(statement)
    if (changed := kind.changed_name(statement)) is not None:
        principal.check_write(changed.text)
    if (read := kind.read_name(statement)) is not None:
        principal.check_read(read.text)
