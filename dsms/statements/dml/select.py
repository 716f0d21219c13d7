"""SELECT: a one-time query, unless it reads a stream that makes it continuous."""

from __future__ import annotations

from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.model.statements import ContinuousQuery, Select, Statement
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser.numbered_aliases import text_of, with_numbered_aliases
from dsms.statements.context import Context
from dsms.statements.continuous import reads_streams
from dsms.statements.statement_kind import StatementKind


def _resolve(statement: Select, catalog: Catalog) -> Statement:
    """A SELECT that reads a declared or derived stream becomes a continuous query, which publishes the changes of its
    result. A SELECT with a preference stays as it is: it reads summaries of its streams."""
    if statement.preference is not None or not reads_streams(names_in(statement.select), catalog):
        return statement
    select = with_numbered_aliases(statement.select)
    text = statement.sql.strip()
    written = text if select is statement.select else text_of(select)
    return ContinuousQuery("query", statement.name, select, (), text, written, "streamed")


def _answer(statement: Select, context: Context) -> StatementResult:
    return context.select(statement)


# the parser itself recognizes the beginning of a query: SELECT, WITH, Istream (…), parentheses
KIND = StatementKind(statement=Select, resolve=_resolve, answer=_answer, role="reader")
