"""The list of all kinds of statements, and the functions derived from it: `parse`, `resolved_statement`, `kinds_in`,
`run` and `apply`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser import parse as script
from dsms.sql.parser.parse import Starts
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from dsms.statements.context import Context
from dsms.statements.ddl import (
    add_columns,
    alter_columns,
    alter_executor,
    alter_query,
    comment,
    create_aggregate,
    create_index,
    create_query,
    create_stream,
    create_table,
    create_table_as,
    drop,
    drop_columns,
    functions,
    if_not_exists,
    pause,
    refresh_view,
    register_source,
    rename,
    repair_query,
    replace_query,
    schemas,
    sinks,
    skip_record,
)
from dsms.statements.dml import delete, insert, insert_stream, load, merge, replay, select, update
from dsms.statements.explain import analyze, plan, result
from dsms.statements.show import aggregates, alarms, audit, create, describe, entities, executors, objects, subplans
from dsms.statements.show import schemas as shown_schemas
from dsms.statements.show import sinks as shown_sinks
from dsms.statements.statement_kind import StatementKind
from operators.core.call_depth import allow_deep_calls
from operators.core.errors import UserError

#: To add a kind of statement, add a file in a neighbouring package and a line here. Messages list statements in this
#: order.
STATEMENTS: Final = (
    register_source.KIND,
    create_stream.KIND,
    create_stream.DECLARING_KIND,
    create_query.KIND,
    replace_query.KIND,
    create_table.KIND,
    create_table_as.KIND,
    insert.KIND,
    insert_stream.KIND,
    update.KIND,
    delete.KIND,
    merge.KIND,
    *load.KINDS,
    create_aggregate.KIND,
    create_aggregate.PYTHON_KIND,
    *functions.KINDS,
    *if_not_exists.KINDS,
    *sinks.KINDS,
    *schemas.KINDS,
    create_index.CREATE,
    create_index.DROP,
    refresh_view.KIND,
    replay.KIND,
    skip_record.KIND,
    drop.KIND,
    pause.KIND,
    repair_query.KIND,
    alter_query.KIND,
    alter_executor.KIND,
    rename.KIND,
    add_columns.KIND,
    add_columns.FILL_DEFAULT,
    drop_columns.KIND,
    alter_columns.KIND,
    comment.KIND,
    objects.KIND,
    entities.KIND,
    executors.KIND,
    subplans.KIND,
    shown_schemas.KIND,
    *shown_sinks.KINDS,
    aggregates.KIND,
    create.KIND,
    alarms.KIND,
    audit.KIND,
    describe.KIND,
    plan.KIND,
    analyze.KIND,
    result.KIND,
    select.KIND,
)
_KINDS: Mapping[type[st.Statement], StatementKind] = {kind.statement: kind for kind in STATEMENTS}
_STARTS: Starts = {words: parse_rest for kind in STATEMENTS for words, parse_rest in kind.starts.items()}


def parse(text: str, limits: Limits = NO_LIMITS) -> list[st.Statement]:
    """The statements of a script, separated by semicolons.

    Raises SqlError with the line and column in the script.

    >>> [type(s).__name__ for s in parse("REGISTER SOURCE S (char a, int b) FROM t; SELECT STREAMED a FROM R(S)")]
    ['RegisterSource', 'ContinuousQuery']
    """
    allow_deep_calls()
    with readable_sqlglot_errors():
        written = script.parse(text, _STARTS, limits)
        return [part for statement in written for part in kind_of_statement(statement).parts(statement)]


def kind_of_statement(statement: st.Statement) -> StatementKind:
    """The kind to which a statement belongs.

    >>> kind_of_statement(parse("DROP VIEW v")[0]).role
    'writer'
    """
    return _KINDS[type(statement)]


def resolved_statement(statement: st.Statement, catalog: Catalog) -> st.Statement:
    """The statement as it is to be run with this catalog. For example, a SELECT or INSERT that reads a declared or
    derived stream becomes continuous, and a statement with IF NOT EXISTS its CREATE, or a statement that does nothing.

    >>> declared, _ = apply(parse("CREATE STREAM S (a INT)")[0], Catalog(), Environment())
    >>> type(resolved_statement(parse("SELECT a FROM S")[0], declared)).__name__
    'ContinuousQuery'
    """
    return kind_of_statement(statement).resolve(statement, catalog)


def kinds_in(text: str, catalog: Catalog, limits: Limits = NO_LIMITS) -> list[StatementKind]:
    """The kinds of the statements of a script as they are to be run with this catalog.

    >>> declared, _ = apply(parse("CREATE STREAM S (a INT)")[0], Catalog(), Environment())
    >>> [kind.reads_only for kind in kinds_in("SHOW STREAMS; SELECT a FROM S", declared)]
    [True, False]
    """
    with readable_sqlglot_errors():
        return [kind_of_statement(resolved_statement(statement, catalog)) for statement in parse(text, limits)]


def run(statement: st.Statement, context: Context) -> StatementResult:
    """Runs a resolved statement in a system, and returns its result."""
    answer = kind_of_statement(statement).answer
    return context.apply(statement) if answer is None else answer(statement, context)


def apply(statement: st.Statement, catalog: Catalog, environment: Environment) -> Applied:
    """The catalog after a statement, and its result. A pure decision, except for calls of `environment`.

    Raises SqlError or UserError if the statement is wrong, and UserError if its kind is not about the catalog.
    """
    kind = kind_of_statement(statement)
    if kind.apply is None:
        raise UserError(f"statements of kind {type(statement).__name__} are not supported here")
    with readable_sqlglot_errors():
        return kind.apply(statement, catalog, environment)
