"""Text to statements: our own statements by a cursor over sqlglot's tokens, queries by sqlglot's parser."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token

from dsms.sql import statements as st
from dsms.sql.cursor import Cursor, place_of
from dsms.sql.dialect import Dsms
from operators.errors import SqlError

_SOURCE_CLAUSES = ("FORMAT", "PARTITIONS", "TIMESTAMP", "SLACK", "IDLE", "TAGGED", "REGISTRY")
_RESULT_CLAUSES = ("FORMAT", "PARTITIONS", "TOPIC")
_KINDS: dict[str, st.Kind] = {"SOURCE": "source", "STREAM": "stream", "VIEW": "view", "QUERY": "query"}
_PLURALS: dict[str, st.Kind] = {"SOURCES": "source", "STREAMS": "stream", "VIEWS": "view", "QUERIES": "query"}


def parse(script: str) -> list[st.Statement]:
    """The statements of a script, separated by semicolons.

    Raises SqlError with the line and column in the script.

    >>> [type(s).__name__ for s in parse("REGISTER SOURCE S (char a, int b) FROM t; SELECT STREAMED a FROM R(S)")]
    ['RegisterSource', 'ContinuousQuery']
    """
    try:
        tokens = Dsms().tokenize(script)
    except TokenError as error:
        raise SqlError(f"cannot read the statement: {error}") from error
    return [_statement(Cursor(script, part)) for part in _split(tokens)]


def _split(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _statement(cursor: Cursor) -> st.Statement:
    label = _label(cursor)
    for words, parse_rest in _STATEMENTS.items():
        if cursor.accept(*words):
            return parse_rest(cursor, label)
    if cursor.peeks("SELECT") or cursor.peeks("WITH") or cursor.peeks("("):
        return _select(cursor, label)
    return cursor.fail(f'"{cursor.peek().text}" does not start a statement', "have: " + ", ".join(_STARTS))


def _label(cursor: Cursor) -> st.Name | None:
    """SyncSQL's way to name a statement: `Q3: SELECT STREAMED …`."""
    if len(cursor.tokens) > 1 and cursor.tokens[1].text == ":":
        name = cursor.name("name")
        cursor.expect(":")
        return name
    return None


def _register_source(cursor: Cursor, _: st.Name | None) -> st.RegisterSource:
    name = cursor.name("source name")
    cursor.expect("(")
    columns = [_column(cursor)]
    while cursor.accept(","):
        columns.append(_column(cursor))
    cursor.expect(")")
    cursor.expect("FROM")
    topic = cursor.name("topic")
    return st.RegisterSource(name, tuple(columns), topic, _clauses(cursor, _SOURCE_CLAUSES), cursor.sql)


def _column(cursor: Cursor) -> st.ColumnDefinition:
    """`name type [NOT NULL]`, or SyncSQL's `type name`."""
    tokens = cursor.until(",", ")")
    if len(tokens) < 2:
        cursor.fail("a column needs a name and a type")
    nullable = True
    if [token.text.upper() for token in tokens[-2:]] == ["NOT", "NULL"]:
        nullable, tokens = False, tokens[:-2]
    elif tokens[-1].text.upper() == "NULL":
        tokens = tokens[:-1]
    type_first = not cursor.starts_type(tokens[1:]) and cursor.starts_type(tokens[:-1])
    name, type_tokens = (tokens[-1], tokens[:-1]) if type_first else (tokens[0], tokens[1:])
    return st.ColumnDefinition(cursor.name_of(name, "column name"), cursor.text_of(type_tokens), nullable)


def _create_stream(cursor: Cursor, label: st.Name | None) -> st.CreateStream:
    name = cursor.name("stream name")
    if label and label.text.lower() != name.text.lower():
        raise label.place.error(f'label "{label.text}" differs from the name "{name.text}"')
    cursor.expect("OVER")
    source = cursor.name("source name")
    cursor.expect("KEY")
    keys: list[st.Name] = []
    if not cursor.accept("NULL"):
        parenthesised = cursor.accept("(")
        keys.append(cursor.name("key column"))
        while cursor.accept(","):
            keys.append(cursor.name("key column"))
        if parenthesised:
            cursor.expect(")")
    cursor.end()
    return st.CreateStream(name, source, tuple(keys), cursor.sql)


def _create_view(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    return _named(cursor, "view")


def _create_query(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    return _named(cursor, "query")


def _named(cursor: Cursor, kind: str) -> st.ContinuousQuery:
    name = cursor.name(f"{kind} name")
    clauses = _with(cursor)
    cursor.expect("AS")
    query = _select(cursor, name, streamed=True)
    assert isinstance(query, st.ContinuousQuery)
    kind_: st.Kind = _KINDS[kind.upper()]
    return st.ContinuousQuery(
        "view" if kind_ == "view" else "query", name, query.select, clauses, cursor.sql, query.select_sql
    )


def _with(cursor: Cursor) -> tuple[st.Clause, ...]:
    if not cursor.accept("WITH"):
        return ()
    cursor.expect("(")
    found = []
    while not cursor.accept(")"):
        token = cursor.peek()
        name = cursor.one_of(_RESULT_CLAUSES, "option")
        cursor.expect("=")
        found.append(st.Clause(name.lower(), (cursor.next().text,), place_of(token)))
        cursor.accept(",")
    return tuple(found)


def _clauses(cursor: Cursor, choices: tuple[str, ...]) -> tuple[st.Clause, ...]:
    found: list[st.Clause] = []
    while cursor.more():
        token = cursor.peek()
        name = cursor.one_of(choices, "clause")
        words: list[str] = []
        while cursor.more() and cursor.peek().text.upper() not in choices:
            words.append(cursor.next().text)
        if any(name.lower() == other.name for other in found):
            raise place_of(token).error(f"clause {name} is given twice")
        found.append(st.Clause(name.lower(), tuple(words), place_of(token)))
    return tuple(found)


def _select(cursor: Cursor, name: st.Name | None, *, streamed: bool = False) -> st.Statement:
    text, marked = cursor.rest_without("STREAMED")
    select = _parse_select(text)
    alone = text.strip()
    if marked or streamed:
        return st.ContinuousQuery("query", name, select, (), cursor.sql, alone)
    return st.Select(select, alone)


def _parse_select(text: str) -> exp.Expr:
    """`text` is the whole script with everything but the query blanked, so that positions are the script's."""
    try:
        return sqlglot.parse_one(text, read=Dsms)
    except ParseError as error:
        first = error.errors[0]
        width = len(first.get("highlight") or " ")
        message = str(first["description"]).split(" <Token")[0].rstrip(".")
        if message.startswith("Required keyword"):
            message = "the expression ends too early"
        raise SqlError(
            f'{message[0].lower()}{message[1:]} at "{first.get("highlight")}"',
            line=first["line"] or 1,
            column=max((first["col"] or 1) - width + 1, 1),
        ) from error


def _drop(cursor: Cursor, _: st.Name | None) -> st.Drop:
    kind = _KINDS[cursor.one_of(tuple(_KINDS), "kind")]
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"{kind} name")
    cascade = cursor.accept("CASCADE")
    cursor.end()
    return st.Drop(kind, name, if_exists, cascade, cursor.sql)


def _show(cursor: Cursor, _: st.Name | None) -> st.Show:
    kind = _PLURALS[cursor.one_of(tuple(_PLURALS), "kind")]
    cursor.end()
    return st.Show(kind, cursor.sql)


def _describe(cursor: Cursor, _: st.Name | None) -> st.Describe:
    if cursor.peek().text.upper() in _KINDS and len(cursor.tokens) - cursor.at > 1:
        cursor.next()
    name = cursor.name("name")
    cursor.end()
    return st.Describe(name, cursor.sql)


def _explain(cursor: Cursor, _: st.Name | None) -> st.Explain:
    if cursor.peeks("SELECT"):
        query = _select(cursor, None, streamed=True)
        assert isinstance(query, st.ContinuousQuery)
        return st.Explain(None, query.select, cursor.sql)
    name = cursor.name("name")
    cursor.end()
    return st.Explain(name, None, cursor.sql)


_STATEMENTS: dict[tuple[str, ...], Callable[[Cursor, st.Name | None], st.Statement]] = {
    ("REGISTER", "SOURCE"): _register_source,
    ("CREATE", "STREAM"): _create_stream,
    ("CREATE", "STREAMED", "VIEW"): _create_view,
    ("CREATE", "QUERY"): _create_query,
    ("DROP",): _drop,
    ("SHOW",): _show,
    ("DESCRIBE",): _describe,
    ("EXPLAIN",): _explain,
}
_STARTS = (*(" ".join(words) for words in _STATEMENTS), "SELECT STREAMED", "SELECT")
