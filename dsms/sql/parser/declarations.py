"""Parses REGISTER SOURCE and CREATE STREAM, with their columns and clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor, place_of

_SOURCE_CLAUSES = ("FORMAT", "PARTITIONS", "TIMESTAMP", "SLACK", "IDLE", "AHEAD", "TAGGED", "REGISTRY", "CONSTRAINT")
#: The name of a clause directly after one of these does not begin a clause. After BY it is a column, as in `ORDERED BY
#: timestamp`. After a comma or at the beginning ([]) of CONSTRAINT, it begins a constraint, as in `CONSTRAINT ORDERED
#: BY a WITHIN 1, ORDERED …`; these two apply only there.
_BEFORE_ORDINARY_WORDS: tuple[list[str], ...] = (["BY"], [","], [])
_STREAM_CLAUSES = ("SOURCE", "ORDERED", "ORDER BY", "LATE", *_SOURCE_CLAUSES)
#: The clauses that only CREATE STREAM has.
_STREAM_ONLY = ("source", "order by", "ordered", "late")


def register_source(cursor: Cursor, _: st.Name | None) -> st.RegisterSource:
    """`REGISTER SOURCE name (columns) FROM topic clauses`."""
    name = cursor.object_name("source name")
    columns = _columns(cursor)
    cursor.expect("FROM")
    topic = cursor.name("topic")
    return st.RegisterSource(name, columns, topic, clauses(cursor, _SOURCE_CLAUSES), cursor.sql)


def create_stream(cursor: Cursor, label: st.Name | None) -> st.CreateStream | st.DeclareStream | st.ContinuousQuery:
    """`CREATE STREAM name OVER source KEY …`, PIPES' `CREATE STREAM name (columns) …` or `… [(names)] AS select`."""
    name = _stream_name(cursor)
    if label and label.text.lower() != name.text.lower():
        raise label.place.error(f'label "{label.text}" differs from the name "{name.text}"')
    renamed = _new_names(cursor)
    if cursor.peeks("("):
        return _declared_stream(cursor, name)
    if cursor.peeks("AS") or cursor.peeks("WITH"):
        query = replace(queries.named_query(cursor, name, "view", "streamed"), stream=True)
        return query.with_columns(renamed) if renamed else query
    cursor.expect("OVER")
    source = cursor.object_name("source name")
    cursor.expect("KEY")
    keys = () if cursor.accept("NULL") else _keys(cursor)
    deletions = not keys and cursor.accept("WITH", "DELETIONS")
    cursor.end()
    return st.CreateStream(name, source, keys, cursor.sql, deletions)


def _stream_name(cursor: Cursor) -> st.Name:
    """A name that may have hyphens, such as ESL's `larceny-in-progress`; queries have to quote it."""
    name = cursor.object_name("stream name")
    while cursor.accept("-"):
        name = st.Name(f"{name.text}-{cursor.name('stream name').text}", name.place)
    return name


def _new_names(cursor: Cursor) -> tuple[st.Name, ...]:
    """Consumes the new names of columns in `CREATE STREAM name (a, b) AS …`. Consumes nothing and returns () if the
    parentheses declare columns, or are missing."""
    tokens = cursor.tokens[cursor.at :]
    closed = next((at for at, token in enumerate(tokens) if token.text == ")"), 0)
    separators = [token.text for token in tokens[:closed:2]]
    if closed % 2 or separators != ["(", *[","] * (len(separators) - 1)]:
        return ()
    if [token.text.upper() for token in tokens[closed + 1 : closed + 2]] not in (["AS"], ["WITH"]):
        return ()
    return queries.new_names(cursor)


def _keys(cursor: Cursor) -> tuple[st.Name, ...]:
    parenthesised = cursor.accept("(")
    keys = cursor.names("key column")
    if parenthesised:
        cursor.expect(")")
    return keys


def _declared_stream(cursor: Cursor, name: st.Name) -> st.DeclareStream:
    columns = _columns(cursor)
    by_name = {clause.name: clause for clause in clauses(cursor, _STREAM_CLAUSES)}
    order = by_name.get("order by") or by_name.get("ordered")
    ordered = None if order is None else _ordering_column(order)
    if ordered is not None and (clash := by_name.get("timestamp")):
        raise clash.place.error("TIMESTAMP and ORDERED BY both name the timestamp", "use only one of them")
    topic, function = _topic(by_name.get("source"), name)
    rest = tuple(clause for clause in by_name.values() if clause.name not in _STREAM_ONLY)
    late = _late_stream(by_name.get("late"))
    return st.DeclareStream(name, columns, topic, ordered, function, rest, cursor.sql, "ordered" in by_name, late)


def _late_stream(clause: st.Clause | None) -> st.Name | None:
    """The stream of `LATE INTO name`."""
    if clause is None:
        return None
    if len(clause.words) != 2 or clause.words[0].upper() != "INTO":
        raise clause.place.error("invalid LATE clause", "have: LATE INTO stream")
    return st.Name(clause.words[1], clause.place)


def _ordering_column(clause: st.Clause) -> st.Name:
    words = clause.words if clause.name == "order by" else clause.words[1:]
    if len(words) != 1 or (clause.name == "ordered" and clause.words[0].upper() != "BY"):
        raise clause.place.error("invalid ORDERED BY clause", "have: ORDERED BY column")
    return st.Name(words[0], clause.place)


def _topic(clause: st.Clause | None, stream: st.Name) -> tuple[st.Name, str | None]:
    """The topic of SOURCE (default: the stream's name), and the function in `SOURCE function('topic', …)`, or None."""
    if clause is None:
        return stream, None
    words = clause.words
    if len(words) == 1:
        return st.Name(words[0], clause.place), None
    if len(words) >= 4 and words[1] == "(" and words[-1] == ")":
        return st.Name(words[2], clause.place), words[0]
    raise clause.place.error("invalid SOURCE clause", "have: SOURCE 'topic', SOURCE function('topic', …)")


def _columns(cursor: Cursor) -> tuple[st.ColumnDefinition, ...]:
    cursor.expect("(")
    columns = [column(cursor.until(",", ")"), cursor)]
    while cursor.accept(","):
        columns.append(column(cursor.until(",", ")"), cursor))
    cursor.expect(")")
    return tuple(columns)


def column(tokens: list[Token], cursor: Cursor) -> st.ColumnDefinition:
    """`name type [NOT NULL]`, or SyncSQL's `type name`."""
    if len(tokens) < 2:
        cursor.fail("a column needs a name and a type")
    nullable = True
    if [token.text.upper() for token in tokens[-2:]] == ["NOT", "NULL"]:
        nullable, tokens = False, tokens[:-2]
    elif tokens[-1].text.upper() == "NULL":
        tokens = tokens[:-1]
    if len(tokens) < 2:
        cursor.fail("a column needs a name and a type")
    type_first = not cursor.is_type(tokens[1:]) and cursor.is_type(tokens[:-1])
    name, type_tokens = (tokens[-1], tokens[:-1]) if type_first else (tokens[0], tokens[1:])
    return st.ColumnDefinition(cursor.name_of(name, "column name"), cursor.text_of(type_tokens), nullable)


def clauses(cursor: Cursor, choices: tuple[str, ...]) -> tuple[st.Clause, ...]:
    """The rest of the statement, split at the words of `choices`, unless these are quoted or in parentheses."""
    parsed: list[st.Clause] = []
    while cursor.more():
        token = cursor.peek()
        name = cursor.one_of(choices, "clause")
        words = _words(cursor, choices, _BEFORE_ORDINARY_WORDS if name == "CONSTRAINT" else _BEFORE_ORDINARY_WORDS[:1])
        if any(name.lower() == other.name for other in parsed):
            raise place_of(token).error(f"clause {name} is given twice")
        parsed.append(st.Clause(name.lower(), words, place_of(token)))
    return tuple(parsed)


def _words(cursor: Cursor, choices: tuple[str, ...], before: Sequence[list[str]]) -> tuple[str, ...]:
    """Consumes the words up to the next clause. A word directly after one of `before` does not begin a clause."""
    words: list[str] = []
    depth = 0
    while cursor.more() and (depth or not _starts_clause(cursor.peek(), choices) or words[-1:] in before):
        token = cursor.next()
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        words.append("BY" if token.text.upper() == "BY" else token.text)
    return tuple(words)


def _starts_clause(token: Token, choices: tuple[str, ...]) -> bool:
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return not quoted and token.text.upper() in choices
