"""CREATE OR REPLACE: a query replaces the query of its name, from an instant on."""

from __future__ import annotations

from typing import Any

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statements import ReplaceQuery
from dsms.registration.replacement import readers, replace_query
from dsms.sql.parser import queries as syntax
from dsms.sql.parser.summaries import replace_summary
from dsms.statements.ddl.create_query import query_reads
from dsms.statements.statement_kind import Halt, StatementKind, changes_named


def halt_with_readers(statement: Any, catalog: Catalog) -> Halt:
    """The query of the statement's name and the queries that read it: other lanes (dataflows with their own source
    positions) will publish their results."""
    query = catalog.get(statement.name.text)
    return Halt((query, *readers(catalog, query))) if isinstance(query, Query) else Halt()


KIND = StatementKind(
    statement=ReplaceQuery,
    starts={
        ("CREATE", "OR", "REPLACE"): syntax.create_or_replace,
        ("CREATE", "OR", "REPLACE", "SUMMARY"): replace_summary,
    },
    apply=replace_query,
    halts=halt_with_readers,
    changed_names=changes_named,
    declaration_reads=lambda statement: query_reads(statement.query),
)
