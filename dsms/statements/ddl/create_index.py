"""CREATE INDEX and DROP INDEX, which do nothing. They are accepted because scripts for other systems have them."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind

_NOTICE = "state is indexed by the keys that queries need; no index was created"


@dataclass(frozen=True, slots=True)
class Index(st.Statement):
    """`CREATE [UNIQUE] INDEX …`, `DROP INDEX …`; `words` are its first two."""

    words: str
    sql: str


def _create(cursor: Cursor, _: st.Name | None) -> Index:
    return _parsed(cursor, "CREATE INDEX")


def _drop(cursor: Cursor, _: st.Name | None) -> Index:
    return _parsed(cursor, "DROP INDEX")


def _parsed(cursor: Cursor, words: str) -> Index:
    while cursor.more():
        cursor.next()
    return Index(words, cursor.sql)


def _apply(statement: Index, catalog: Catalog, environment: Environment) -> Applied:
    return catalog, StatementResult(statement.words, "nothing was done", notices=(_NOTICE,))


KIND = StatementKind(
    statement=Index,
    starts={("CREATE", "INDEX"): _create, ("CREATE", "UNIQUE", "INDEX"): _create, ("DROP", "INDEX"): _drop},
    apply=_apply,
    role="reader",
)
