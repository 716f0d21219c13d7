"""Which SELECT without STREAMED is continuous: one over a stream that CREATE STREAM declares or derives, as in ESL."""

from __future__ import annotations

from collections.abc import Iterable

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Stream
from dsms.registration.kinds.if_not_exists import chosen
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser.numbered_aliases import numbered, text_of


def resolved_statement(statement: st.Statement, catalog: Catalog) -> st.Statement:
    """The statement with the meaning that the catalog gives it: a SELECT that reads a declared or derived stream is a
    continuous query, which publishes the changes of its result, and an INSERT of such a SELECT is continuous as well.
    One with IF NOT EXISTS creates, or does nothing. Every other statement is as it was parsed, also a SELECT with a
    preference, which reads summaries of its streams.

    >>> from dsms.registration.environment import FixedEnvironment
    >>> from dsms.registration.statements import apply, parse
    >>> declared, _ = apply(parse("CREATE STREAM S (a INT)")[0], Catalog(), FixedEnvironment())
    >>> type(resolved_statement(parse("SELECT a FROM S")[0], declared)).__name__
    'ContinuousQuery'
    """
    if isinstance(statement, st.IfNotExists):
        return chosen(statement, catalog)
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
