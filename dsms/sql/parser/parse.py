"""Parses scripts: queries by sqlglot's parser, all other statements by a cursor over sqlglot's tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.model.limits import NO_LIMITS, Limits
from dsms.sql.parser import aggregates, queries
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.refused import refuse_other_systems
from dsms.sql.parser.statement_limits import check_script, check_statement
from operators.core.errors import SqlError
from operators.core.nearest import have

#: Parses the rest of a statement after its first words; the name is its label, as in `Q3: SELECT …`, or None.
ParseRest = Callable[[Cursor, st.Name | None], st.Statement]
#: The words with which each kind of statement begins, and the function that parses its rest.
Starts = Mapping[tuple[str, ...], ParseRest]
_QUERY_STARTS = ("SELECT STREAMED", "SELECT COMPLETE", "SELECT", "VALUES")


def parse(script: str, starts: Starts, limits: Limits = NO_LIMITS) -> list[st.Statement]:
    """The statements of a script, separated by semicolons; each begins with words of `starts`, or is a query.

    Raises SqlError with the line and column in the script, also for a statement that exceeds a limit.

    >>> from dsms.sql.parser.loads import copy
    >>> [statement.path for statement in parse("COPY t FROM 'rows.csv'", {("COPY",): copy})]
    ['rows.csv']
    """
    check_script(script, limits)
    parts = _split(_tokens(script))
    for part in parts:
        check_statement(part, limits)
    return [_statement(Cursor(script, part, limits), starts) for part in parts]


def split(script: str) -> list[str]:
    """The texts of the statements of a script.

    >>> split("DROP VIEW a;  DROP VIEW b;")
    ['DROP VIEW a', 'DROP VIEW b']
    """
    return [script[part[0].start : part[-1].end + 1] for part in _split(_tokens(script))]


def _tokens(script: str) -> list[Token]:
    try:
        return Dsms().tokenize(script)
    except TokenError as error:
        raise SqlError(f"cannot read the statement: {error}") from error


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Splits at semicolons, except within the definition of an aggregate, which contains semicolons and ends with its
    last `}`."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON and not depth:
            parts.append([])
            continue
        if not depth and _misprinted(parts, token):
            parts = [*parts[:-2], [*parts[-2], token]]
            continue
        parts[-1].append(token)
        if unquoted_text(token) in ("{", "}") and (depth or aggregates.begins([t.text.upper() for t in parts[-1][:6]])):
            depth += 1 if token.text == "{" else -1
            if not depth:
                parts.append([])
    return [part for part in parts if part]


def _misprinted(parts: list[list[Token]], token: Token) -> bool:
    """Whether the semicolon before the token is to be ignored: ESL's paper prints `CREATE STREAM …; SOURCE …` as one
    statement."""
    if parts[-1] or len(parts) < 2 or token.text.upper() != "SOURCE":
        return False
    return [before.text.upper() for before in parts[-2][:2]] == ["CREATE", "STREAM"]


def _statement(cursor: Cursor, starts: Starts) -> st.Statement:
    label = _label(cursor)
    refuse_other_systems(cursor)
    for words in sorted(starts, key=len, reverse=True):  # SHOW CREATE comes before SHOW
        if cursor.accept(*words):
            creates = words[0] in ("CREATE", "REGISTER") and words[-1] not in ("INDEX", "SCHEMA", "SINK")
            if creates and cursor.accept("IF", "NOT", "EXISTS"):
                place = place_of(cursor.tokens[cursor.at - 3])
                return _if_not_exists(starts[words](cursor, label), place, cursor.sql)
            return starts[words](cursor, label)
    if cursor.peek().text.upper() in queries.STARTS or _starts_stream(cursor):
        return queries.select(cursor, label)
    firsts = dict.fromkeys(words.partition(" ")[0] for words in (*(words[0] for words in starts), *_QUERY_STARTS))
    return cursor.fail(f'"{cursor.peek().text}" does not start a statement', have(cursor.peek().text, [*firsts]))


def _if_not_exists(statement: st.Statement, place: st.TextLocation, sql: str) -> st.IfNotExists:
    """Wraps a statement in IF NOT EXISTS, which is at `place`; `sql` is the whole text. Raises SqlError if the
    statement creates no object, or one that does not support IF NOT EXISTS."""
    if not isinstance(statement, st.Creation) or statement.name is None:
        raise place.error("IF NOT EXISTS is supported only for sources, streams, tables, views and queries")
    return st.IfNotExists(statement, statement.name, sql)


def _starts_stream(cursor: Cursor) -> bool:
    """Whether a query such as `Istream (SELECT …)` follows."""
    ahead = [token.text.upper() for token in cursor.tokens[cursor.at : cursor.at + 2]]
    return len(ahead) == 2 and ahead[0] in ("ISTREAM", "DSTREAM", "RSTREAM") and ahead[1] == "("


def _label(cursor: Cursor) -> st.Name | None:
    """SyncSQL's label of a statement: `Q3: SELECT STREAMED …`."""
    if len(cursor.tokens) > 1 and cursor.tokens[1].text == ":":
        name = cursor.name("name")
        cursor.expect(":")
        return name
    return None
