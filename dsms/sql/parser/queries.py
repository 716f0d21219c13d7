"""Parses SELECT, and statements that create views and queries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from dsms.model import statements as st
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.position import error_at
from dsms.sql.parser import nodes
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.full_names import with_full_names
from dsms.sql.parser.preference import split_preference
from dsms.sql.parser.rewrites import rewritten
from dsms.sql.parser.statement_limits import within_limits
from operators.core.errors import SqlError

_RESULT_CLAUSES = (
    "FORMAT",
    "PARTITIONS",
    "SHARED",
    "START",
    "TOPIC",
    "WEIGHT",
    "MAX_ERROR",
    "MAX_LOSS",
    "DEADLINE",
    "ERROR_COLUMNS",
    "SHED_WHERE",
    "STATE_MEMORY",
    "MEMORY",
    "FRAGMENTS",
    "FRAGMENT",
)
_OUTPUT_WORDS: dict[str, st.Output] = {"STREAMED": "streamed", "COMPLETE": "complete"}
#: The tokens with which a query begins.
STARTS = ("SELECT", "WITH", "VALUES", "(")
ViewOrQuery = Literal["view", "query"]


def create_streamed_view(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    """`CREATE [STREAMED] VIEW name [(columns)] [WITH (…)] AS select`."""
    return named_query(cursor, cursor.object_name("view name"), "view", "streamed")


def create_complete_view(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    """`CREATE COMPLETE VIEW name …`, also called MATERIALIZED."""
    return named_query(cursor, cursor.object_name("view name"), "view", "complete")


def create_or_replace(cursor: Cursor, label: st.Name | None) -> st.ReplaceQuery:
    """`CREATE OR REPLACE [STREAMED | COMPLETE | MATERIALIZED] VIEW | QUERY …`."""
    word = cursor.one_of(("STREAMED", "COMPLETE", "MATERIALIZED", "VIEW", "QUERY"), "kind")
    if word not in ("VIEW", "QUERY"):
        cursor.expect("VIEW")
    make = {"QUERY": create_query, "COMPLETE": create_complete_view, "MATERIALIZED": create_complete_view}
    query = make.get(word, create_streamed_view)(cursor, label)
    assert query.name is not None
    return st.ReplaceQuery(query.name, query)


def create_query(cursor: Cursor, _: st.Name | None) -> st.ContinuousQuery:
    """`CREATE QUERY name [(columns)] [WITH (…)] AS select`."""
    return named_query(cursor, cursor.object_name("query name"), "query", "streamed")


def named_query(cursor: Cursor, name: st.Name, kind: ViewOrQuery, output: st.Output) -> st.ContinuousQuery:
    """Parses what follows the name: new names of the columns, options, AS and the query. The output is "complete" if
    `output` is; otherwise, that of the query's text, or `output` if the text names none."""
    renamed = new_names(cursor)
    clauses = options(cursor, _RESULT_CLAUSES) if cursor.accept("WITH") else ()
    cursor.expect("AS")
    rest, preference = split_preference(cursor)
    query = continuous_query(rest, name)
    chosen = output if output == "complete" else query.output or output
    created = st.ContinuousQuery(
        kind, name, query.select, clauses, cursor.sql, query.select_sql, chosen, preference=preference
    )
    return created.with_columns(renamed) if renamed else created


def new_names(cursor: Cursor) -> tuple[st.Name, ...]:
    """`(a, b)`: new names of all columns of a query; () if none are given. Raises SqlError if a name is given twice."""
    if not cursor.accept("("):
        return ()
    renamed = cursor.names("column name")
    cursor.expect(")")
    for at, name in enumerate(renamed):
        if name.text.lower() in {before.text.lower() for before in renamed[:at]}:
            raise name.place.error(f'two columns are named "{name.text}"')
    return renamed


def options(
    cursor: Cursor, known: tuple[str, ...], refused: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> tuple[st.Clause, ...]:
    """`(name = value, …)`; a value is a word, a signed number, or TIMESTAMP and a text. Raises SqlError for names that
    are not in `known`, with the message and the hint of those in `refused`."""
    cursor.expect("(")
    parsed = []
    while not cursor.accept(")"):
        token = cursor.peek()
        if why := refused.get(token.text.upper()):
            raise place_of(token).error(*why)
        name = cursor.one_of(known, "option")
        cursor.expect("=")
        words = [cursor.next().text]
        if words[0] == "-" or words[0].upper() == "TIMESTAMP":
            words.append(cursor.next().text)
        parsed.append(st.Clause(name.lower(), tuple(words), place_of(token)))
        cursor.accept(",")
    return tuple(parsed)


def continuous_query(cursor: Cursor, name: st.Name | None) -> st.ContinuousQuery:
    """The rest of the statement as a continuous query; its output is None if the text does not specify one."""
    text, word = cursor.rest_without(*_OUTPUT_WORDS)
    tree = parse_query(text, cursor.limits)
    output = _OUTPUT_WORDS[word] if word else None
    if output != "complete":
        output = cast("st.Output | None", nodes.output_kind(tree)) or output
    return st.ContinuousQuery("query", name, tree, (), cursor.sql, text.strip(), output)


def select(cursor: Cursor, name: st.Name | None) -> st.ContinuousQuery | st.Select:
    """A bare SELECT: continuous if it has STREAMED, COMPLETE, Istream, or windows on streams, else one-time.

    >>> from dsms.sql.parser.parse import parse
    >>> [type(statement).__name__ for statement in parse("SELECT a FROM S; SELECT a FROM S [Range 5]", {})]
    ['Select', 'ContinuousQuery']
    """
    cursor, preference = split_preference(cursor)
    query = continuous_query(cursor, name)
    if preference is not None:
        return _preferring(query, preference)
    windows = list(query.select.find_all(nodes.StreamWindow))
    sampled = query.select.find(nodes.StreamSample) is not None
    if query.output is not None or sampled or any(window.args["notation"] == "cql" for window in windows):
        return query
    if windows or query.select.find(nodes.StreamOf):
        return st.ContinuousQuery("query", name, query.select, (), query.sql, query.select_sql, "streamed")
    _check_once(query.select)
    return st.Select(query.select, query.select_sql, name)


def _check_once(select: exp.Expr) -> None:
    """Raises SqlError for an item of FROM that a SELECT that runs once cannot read."""
    others = (nodes.SyncRelation, nodes.WindowTable, nodes.TableFunction, nodes.RowPattern, nodes.StreamOf)
    if only := select.find(*others):
        hint = "use SELECT STREAMED or SELECT COMPLETE"
        listed = "windows, table functions, row patterns or synchronised relations"
        raise error_at(only, f"a one-time SELECT cannot read {listed}", hint=hint)


def _preferring(query: st.ContinuousQuery, preference: st.Preference) -> st.Select:
    """A SELECT with a preference. Raises SqlError for a continuous query: its results must depend only on the logs, and
    the number of rows that a SELECT visits within a budget does not."""
    windows = query.select.find(nodes.StreamWindow)
    if query.output is not None or windows:
        refused = windows or query.select
        hint = "run the SELECT once, or write CREATE QUERY … WITH (max_loss = …) AS SELECT … WITH PREFERENCE …"
        raise error_at(refused, "WITH PREFERENCE of a continuous query needs CREATE QUERY and MAX_LOSS", hint=hint)
    if sample := query.select.find(nodes.StreamSample, exp.TableSample):
        raise error_at(sample, "a SELECT with a preference cannot read a sample", hint="leave one of them out")
    _check_once(query.select)
    return st.Select(query.select, query.select_sql, query.name, preference)


def parse_query(text: str, limits: Limits = NO_LIMITS) -> exp.Expr:
    """Parses a query, and balances long chains of AND and OR. `text` is the script with blanks in place of everything
    but the query: locations are those in the script. Raises SqlError."""
    try:
        tree = sqlglot.parse_one(text, read=Dsms)
    except ParseError as error:
        raise _readable(error, text) from error
    query = tree.this.pop() if isinstance(tree, nodes.WholeQuery) else tree
    return with_full_names(rewritten(within_limits(query, limits)))


def selected_expression(text: str, limits: Limits = NO_LIMITS) -> exp.Expr:
    """The expression of `SELECT expression`. Raises SqlError for any other query.

    >>> selected_expression("SELECT a + 1").sql()
    'a + 1'
    """
    tree = parse_query(text, limits)
    parts = [part for part, value in tree.args.items() if value]
    listed = tree.expressions if isinstance(tree, exp.Select) and parts == ["expressions"] else []
    if len(listed) != 1 or isinstance(listed[0], exp.Alias):
        raise error_at(tree, "expected a single expression")
    expression: exp.Expr = tree.expressions[0].pop()
    return expression


def _readable(error: ParseError, text: str) -> SqlError:
    if not error.errors:  # sqlglot parsed no expression at all
        before = text[: len(text) - len(text.lstrip())]
        word = text.split(maxsplit=1)[0] if text.strip() else ""
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return SqlError(f'expected a query at "{word}"', line=line, column=column)
    first = error.errors[0]
    # the column is that of the last character of the highlighted word
    width = len(first.get("highlight") or " ")
    message = str(first["description"]).split(" <Token")[0].rstrip(".")
    if message.startswith("Required keyword"):
        message = "unexpected end of expression"
    return SqlError(
        f'{message[0].lower()}{message[1:]} at "{first.get("highlight")}"',
        line=first["line"] or 1,
        column=max((first["col"] or 1) - width + 1, 1),
    )
