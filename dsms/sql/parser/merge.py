"""Parses MERGE: checks its clauses word by word, because sqlglot skips words that it does not expect; sqlglot parses
the expressions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.model.position import error_at
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.tables import located_name, parse_whole_statement, table_of, target_of

_ROWS: dict[tuple[str, ...], Literal["both", "source", "table"]] = {
    ("MATCHED",): "both",
    ("NOT", "MATCHED"): "source",
    ("NOT", "MATCHED", "BY", "TARGET"): "source",
    ("NOT", "MATCHED", "BY", "SOURCE"): "table",
}
#: The words that divide MERGE into parts: the word that ends a part, by the word that begins it.
_NEXT = {"": "USING", "USING": "ON", "ON": "WHEN", "WHEN": "WHEN"}
_OPENS, _CLOSES = ("(", "[", "{", "CASE"), (")", "]", "}", "END")


def merge(cursor: Cursor, _: st.Name | None) -> st.Merge:
    """`MERGE INTO table [[AS] alias] USING source ON predicate WHEN [NOT] MATCHED [BY SOURCE] [AND predicate] THEN
    UPDATE SET … | DELETE | INSERT [(columns)] VALUES (…) | DO NOTHING …`."""
    heads = list(_checked(cursor))
    tree = parse_whole_statement(cursor, exp.Merge, ("this", "using", "on", "whens"), ("MERGE", "INTO"))
    whens = tree.args["whens"].expressions
    branches = tuple(_branch(when, _ROWS[head]) for when, head in zip(whens, heads, strict=True))
    _check_reachable(branches, whens)
    alias = tree.this.alias or None
    return st.Merge(table_of(tree.this), tree.args["using"], tree.args["on"], branches, cursor.sql, alias)


def _checked(cursor: Cursor) -> Iterator[tuple[str, ...]]:
    """The words between each WHEN and its condition or THEN. Raises SqlError for invalid clauses."""
    parts = list(_parts(cursor.tokens[cursor.at :]))
    words = [word for word, _ in parts]
    if words[:4] != ["", "USING", "ON", "WHEN"]:
        cursor.fail("MERGE needs USING, ON and WHEN", "MERGE INTO table USING source ON predicate WHEN MATCHED THEN …")
    if (extra := parts[0][1][_target_length(parts[0][1]) :]) or not parts[1][1] or not parts[2][1]:
        first = extra[0] if extra else parts[3][1][0]
        raise place_of(first).error("expected MERGE INTO table [AS alias] USING source ON predicate")
    for _, tokens in parts[3:]:
        yield _head(tokens, cursor)


def _parts(tokens: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    """Splits MERGE at USING, ON and each WHEN outside brackets and CASE. Returns the tokens of each part with the word
    before them, which is "" for the first part."""
    word, part, depth = "", list[Token](), 0
    for token in tokens:
        text = unquoted_text(token).upper()
        if depth == 0 and text == _NEXT[word]:
            yield word, part
            word, part = text, []
            continue
        depth += (text in _OPENS) - (text in _CLOSES)
        part.append(token)
    yield word, part


def _target_length(tokens: list[Token]) -> int:
    """The number of tokens of the table and its alias."""
    length = 1
    while [token.text for token in tokens[length : length + 1]] == ["."]:
        length += 2
    length += [unquoted_text(token).upper() for token in tokens[length : length + 1]] == ["AS"]
    return min(length + 1, len(tokens))


def _head(tokens: list[Token], cursor: Cursor) -> tuple[str, ...]:
    """The words of a WHEN before its condition or THEN. Raises SqlError unless an action follows THEN."""
    words = [unquoted_text(token).upper() for token in tokens]
    head = tuple(itertools.takewhile(lambda word: word in ("NOT", "MATCHED", "BY", "SOURCE", "TARGET"), words))
    depths = list(itertools.accumulate((word in _OPENS) - (word in _CLOSES) for word in words))
    then = next((at for at, word in enumerate(words) if word == "THEN" and depths[at] == 0), 0)
    between = words[len(head) : then]
    if head not in _ROWS or not then or (between and (between[0] != "AND" or len(between) == 1)):
        cursor.at = cursor.tokens.index(tokens[0]) if tokens else cursor.at
        cursor.fail("WHEN needs [NOT] MATCHED and an action", "WHEN [NOT] MATCHED [BY SOURCE] [AND predicate] THEN …")
    _check_action(tokens[then + 1 :], [depth - depths[then] for depth in depths[then + 1 :]], tokens[then])
    return head


def _check_action(tokens: list[Token], depths: list[int], then: Token) -> None:
    """Raises SqlError unless the tokens are an action: sqlglot would skip words that it does not expect."""
    words = [unquoted_text(token).upper() for token in tokens]
    outside = [word for word, depth in zip(words, depths, strict=True) if depth == 0]
    match words[:1]:
        case ["UPDATE"] if words[1:2] == ["SET"] and len(words) > 2 and "WHERE" not in outside:
            return
        case ["INSERT"] if outside in (["INSERT", "VALUES", ")"], ["INSERT", ")", "VALUES", ")"]):
            columns = tokens[2 : words.index(")")] if words[1] == "(" else []
            if all((token.text == ",") == bool(at % 2) for at, token in enumerate(columns)) and not any(
                token.token_type == TokenType.STRING for token in columns
            ):
                return
    if words in (["DELETE"], ["DO", "NOTHING"]):
        return
    hint = "UPDATE SET …, DELETE, INSERT [(columns)] VALUES (…), DO NOTHING; conditions come before: WHEN MATCHED AND …"
    raise place_of((tokens or [then])[0]).error("THEN is not followed by an action of MERGE", hint)


def _branch(when: exp.Expr, rows: Literal["both", "source", "table"]) -> st.MergeBranch:
    then, condition = when.args["then"], when.args.get("condition")
    match then:
        case exp.Update() if rows != "source":
            changes = tuple((target_of(change), change.expression) for change in then.expressions)
            return st.MergeBranch(rows, condition, "update", changes)
        case exp.Insert(this=columns, expression=exp.Tuple() as values) if rows == "source":
            names = tuple(located_name(column) for column in columns.expressions) if columns is not None else ()
            _check_values(values)
            return st.MergeBranch(rows, condition, "insert", columns=names, values=tuple(values.expressions))
        case exp.Var() if then.name.upper() == "DELETE" and rows != "source":
            return st.MergeBranch(rows, condition, "delete")
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return st.MergeBranch(rows, condition, "nothing")
    allowed = "INSERT VALUES (…) or DO NOTHING" if rows == "source" else "UPDATE SET …, DELETE or DO NOTHING"
    raise error_at(when, "this action of MERGE is not supported here", hint=f"THEN {allowed}")


def _check_values(values: exp.Expr) -> None:
    for call in values.find_all(exp.AggFunc, exp.Window):
        if call.find_ancestor(exp.Query) is None:
            raise error_at(
                call,
                "an inserted value cannot be an aggregate or a window function",
                hint="compute it in a query in USING",
            )


def _check_reachable(branches: tuple[st.MergeBranch, ...], whens: list[exp.Expr]) -> None:
    """Raises SqlError for a branch that no row can reach: an earlier branch for these rows has no condition."""
    taken = set[str]()
    for branch, when in zip(branches, whens, strict=True):
        if branch.rows in taken:
            raise error_at(
                when, "no row can reach this WHEN", hint="an earlier WHEN without a condition takes all of its rows"
            )
        taken.update([branch.rows] if branch.condition is None else [])
