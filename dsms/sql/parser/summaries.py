"""Parses CREATE SUMMARY (promising tuples, figure 3a) as a view of `SUMMARIZE(TABLE stream, DESCRIPTOR(column), …)`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dsms.model import statements as st
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.queries import parse_query

FUNCTION = "SUMMARIZE"
_BUCKETS, _ZONES = "16", "8"


def create_summary(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    """`CREATE SUMMARY name ON stream (column) WITH GRANULARITY length AND COLLAPSE(rate, depth) [AND BUCKETS n]
    [AND ZONES n]`.

    >>> from dsms.sql.parser.parse import parse
    >>> text = "CREATE SUMMARY s ON Bids (auction) WITH GRANULARITY 10 SECONDS AND COLLAPSE(4, 3) AND BUCKETS 32"
    >>> [made] = parse(text, {("CREATE", "SUMMARY"): create_summary})
    >>> made.select_sql
    "SELECT * FROM SUMMARIZE(TABLE Bids, DESCRIPTOR(auction), INTERVAL '10 SECONDS', 4, 3, 32, 8)"
    """
    name = cursor.object_name("summary name")
    cursor.expect("ON")
    stream, column = cursor.object_name("stream name"), _column(cursor)
    cursor.expect("WITH")
    cursor.expect("GRANULARITY")
    length = _length(cursor.text_of(cursor.until("AND")))
    cursor.expect("AND")
    cursor.expect("COLLAPSE")
    cursor.expect("(")
    rate = cursor.next().text
    cursor.expect(",")
    depth = cursor.next().text
    cursor.expect(")")
    buckets = cursor.next().text if cursor.accept("AND", "BUCKETS") else _BUCKETS
    zones = cursor.next().text if cursor.accept("AND", "ZONES") else _ZONES
    cursor.end()
    quoted = (_identifier(each) for each in (stream, column))
    call = "TABLE {}, DESCRIPTOR({})".format(*quoted)
    text = f"SELECT * FROM {FUNCTION}({call}, {length}, {rate}, {depth}, {buckets}, {zones})"
    tree = parse_query("\n" * (stream.place.line - 1) + text, cursor.limits)
    return st.ContinuousQuery("view", name, tree, (), cursor.sql, text)


def replace_summary(cursor: Cursor, label: st.Name | None) -> st.ReplaceQuery:
    """`CREATE OR REPLACE SUMMARY …`."""
    query = create_summary(cursor, label)
    assert query.name is not None
    return st.ReplaceQuery(query.name, query)


def _column(cursor: Cursor) -> st.Name:
    cursor.expect("(")
    column = cursor.name("column name")
    cursor.expect(")")
    return column


def _identifier(name: st.Name) -> str:
    """A name as it is written in SQL: in quotes if it is a keyword, or not a plain word."""
    (token, *others) = Dsms().tokenize(name.text)
    plain = not others and token.token_type == TokenType.VAR
    return str(exp.to_identifier(name.text, quoted=not plain).sql())


def _length(text: str) -> str:
    """The length as SQL: a number of instants, or an interval; adds INTERVAL and quotes if the text has none."""
    return text if text.isdecimal() or text.upper().startswith("INTERVAL") else f"INTERVAL '{text}'"
