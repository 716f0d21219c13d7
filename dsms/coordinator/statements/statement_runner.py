"""Runs statements, each by the function that its kind needs."""

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
from dsms.registration.continuous import as_meant
from dsms.registration.kinds.drop import Drop
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.registration.kinds.pause import SetPaused
from dsms.registration.kinds.replay import Replay
from dsms.registration.kinds.skip_record import SkipRecord
from dsms.registration.statement_kind import StatementKind
from dsms.registration.statements import STATEMENTS, kind_of_statement, parse
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors

#: Runs one statement and gives its result; it raises, and has done nothing, or has done all that is to be kept.
Run = Callable[[Any, StatementContext], StatementResult]

#: Statements that write records, and those about the catalog that touch rows or may wait until executors follow what
#: they change.
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


#: How each kind of statement is run.
RUNNERS: Mapping[type[st.Statement], Run] = {kind.statement: _runner(kind) for kind in STATEMENTS}


class StatementRunner:
    """Runs scripts, each in order. Those of several clients run side by side; what one statement changes, the next one
    of any client sees."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """The results of the statements in order; a failing one raises, and those before it stay done. Where one needs
        a higher role, none is run. Once `cancelled` is set, nobody waits for the results, and a SELECT fails."""
        statements, catalog = parse(sql, self._context.limits), self._context.store.catalog
        with readable_sqlglot_errors():
            check_roles((as_meant(statement, catalog) for statement in statements), caller.principal.role)
        context = self._context.by(caller, cancelled)
        return [_run(statement, context) for statement in statements]


def _run(statement: st.Statement, context: StatementContext) -> StatementResult:
    changes = not kind_of_statement(statement).reads_only
    with noted(context.audit, context.caller, str(getattr(statement, "sql", "")), changes=changes):
        return _carried_out(statement, context)


def _carried_out(statement: st.Statement, context: StatementContext) -> StatementResult:
    with readable_sqlglot_errors():
        statement, principal = as_meant(statement, context.store.catalog), context.caller.principal
        check_roles([statement], principal.role)  # what it means may have changed since the script began
        check_named(statement, principal)
        check_code(statement, context)
        for url in named_registries(statement):
            context.registry_hosts.check(url, principal.role)
        refuse_reserved(statement, context.store.catalog)
        return RUNNERS[type(statement)](statement, context)


def check_roles(statements: Iterable[st.Statement], role: Role) -> None:
    """Raises Forbidden for the first statement that needs a higher role. Whoever names a secret says where it is sent,
    so only administrators may."""
    for number, statement in enumerate(statements, 1):
        needed = "administrator" if named_secrets(statement) else kind_of_statement(statement).role
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")


def check_code(statement: st.Statement, context: StatementContext) -> None:
    """Raises Forbidden for code in Python where the coordinator was not started with leave for it. What was deployed
    before goes on."""
    if kind_of_statement(statement).deploys_code and not context.python:
        hint = (
            "an administrator allows it by starting the coordinator with --python (DSMS_PYTHON=true; dsms up --python)"
        )
        raise Forbidden("this coordinator takes no functions and aggregates in Python", hint=hint)


def check_named(statement: st.Statement, principal: Principal) -> None:
    """Raises Forbidden for a statement about an object that may not be read, or changed, whether it exists or not. What
    a statement reads and changes besides is checked where it is bound and where the catalog changes."""
    kind = kind_of_statement(statement)
    if (changed := kind.changed_name(statement)) is not None:
        principal.check_write(changed.text)
    if (read := kind.read_name(statement)) is not None:
        principal.check_read(read.text)
