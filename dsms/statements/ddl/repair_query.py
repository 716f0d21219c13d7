"""REPAIR QUERY: a query that shed input reads it again, so that its results become exact."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.replacement import replaced, replacement_notice
from dsms.sql.parser.cursor import Cursor
from dsms.statements.ddl.replace_query import halt_with_readers
from dsms.statements.statement_kind import StatementKind, changes_named


@dataclass(frozen=True, slots=True)
class RepairQuery(st.Statement):
    """`REPAIR QUERY name`: reads shed input again, so that the results become exact."""

    name: st.Name
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> RepairQuery:
    return RepairQuery(cursor.rest_as_name("query name"), cursor.sql)


def _apply(statement: RepairQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Replaces the query by a new version of itself, which reads the whole log. From the instant at which the new
    version takes over, the results are exact."""
    query = catalog.find(statement.name.text, statement.name.place)
    if not isinstance(query, Query) or not query.sheddable:
        raise statement.name.place.error(
            f'"{query.name}" has nothing to repair', "only queries with MAX_ERROR or MAX_LOSS shed input"
        )
    after = replaced(catalog, [query], environment)
    notices = (replacement_notice(after.find(query.name)),)
    message = f'query "{query.name}" reads its input again, including what was shed'
    return after, StatementResult("REPAIR QUERY", message, notices=notices, name=query.name)


KIND = StatementKind(
    statement=RepairQuery,
    starts={("REPAIR", "QUERY"): _parse},
    apply=_apply,
    halts=halt_with_readers,
    changed_names=changes_named,
)
