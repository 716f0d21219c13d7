"""Decides which SELECT and INSERT statements without STREAMED are continuous: as in ESL, those over a stream that
CREATE STREAM declares or derives."""

from __future__ import annotations

from collections.abc import Iterable

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Stream
from dsms.registration.kinds.if_not_exists import resolved
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser.numbered_aliases import numbered, text_of


def resolved_statement(statement: st.Statement, catalog: Catalog) -> st.Statement:
    """The statement as it is to be run with this catalog.

    A SELECT that reads a declared or derived stream becomes a continuous query, which publishes the changes of its
    result; an INSERT of such a SELECT becomes continuous, too. A statement with IF NOT EXISTS becomes its CREATE, or a
    statement that does nothing. Every other statement is returned unchanged, as is a SELECT with a preference, which
    reads summaries of its streams.

    >>> from dsms.registration.environment import FixedEnvironment
    >>> from dsms.registration.statements import apply, parse
    >>> declared, _ = apply(parse("CREATE STREAM S (a INT)")[0], Catalog(), FixedEnvironment())
    >>> type(resolved_statement(parse("SELECT a FROM S")[0], declared)).__name__
    'ContinuousQuery'
    """
    if isinstance(statement, st.IfNotExists):
        return resolved(statement, catalog)
    if isinstance(statement, st.Insert):
        return InsertStream(statement) if _reads_streams(names_in(statement.rows), catalog) else statement
    if not isinstance(statement, st.Select) or statement.preference is not None:
        return statement
    if not _reads_streams(names_in(statement.select), catalog):
        return statement
    select = numbered(statement.select)
    text = statement.sql.strip()
    written = text if select is statement.select else text_of(select)
    return st.ContinuousQuery("query", statement.name, select, (), text, written, "streamed")


def _reads_streams(names: Iterable[str], catalog: Catalog) -> bool:
    return any(_streams(catalog.get(name)) for name in names)


def _streams(item: Object | None) -> bool:
    return (isinstance(item, Stream) and item.declared) or (isinstance(item, Query) and item.stream)
