"""The texts of statements and queries after an object that they name has been renamed.

Only the name is replaced, so the text stays as its author wrote it. Where the old name also qualifies columns, it
becomes an alias: `FROM orders` is then `FROM sales AS orders`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.model.names import bare_name
from dsms.sql.binder.dependencies import query_of, tables_in
from dsms.sql.parser import nodes
from dsms.sql.parser.cursor import place_of
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.full_names import UNWRITTEN_ALIAS
from dsms.sql.parser.parse import Starts, parse
from dsms.sql.parser.table_names import name_and_place
from dsms.statements.ddl import create_query, create_stream, create_table, register_source, replace_query
from dsms.statements.dml import insert
from operators.core.errors import UserError
from operators.core.quoting import quoted_identifier

#: The statements that create the objects that can be renamed; SELECT is among them anyway.
_DECLARATIONS: Final = (
    register_source.KIND,
    create_stream.KIND,
    create_query.KIND,
    replace_query.KIND,
    create_table.KIND,
    insert.KIND,
)
_STARTS: Starts = {words: parse_rest for kind in _DECLARATIONS for words, parse_rest in kind.starts.items()}
#: The fields of statements that name the created object or an object that it is over.
_NAMES = ("name", "table", "source")
#: The items of FROM after whose name there may be an alias.
_ALIASED = (exp.From, exp.Join, nodes.StreamWindow, nodes.StreamSample)


@dataclass(frozen=True)
class _Edit:
    """The text that replaces the characters from `start` to before `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Renaming:
    """A new name for an object. If `aliased`, queries get the old name as an alias."""

    old: str
    new: str
    aliased: bool = False

    def of_query(self, text: str) -> str:
        """The text of a query that names the object.

        >>> Renaming("S", "T").of_query("SELECT s.a FROM s, R(S) AS x")
        'SELECT s.a FROM T, R(T) AS x'
        >>> Renaming("S", "T", aliased=True).of_query("SELECT S.a FROM S [Range 5]")
        'SELECT S.a FROM T AS S [Range 5]'
        """
        return _edited(text, self._in_query(query_of(text), text))

    def of_statement(self, sql: str) -> str:
        """The text of a statement that creates an object, if it names the renamed one. Raises UserError if it is no
        such statement.

        >>> Renaming("S", "T").of_statement("CREATE STREAM S OVER a KEY k"), Renaming("a", "b c").of_statement(
        ...     "CREATE STREAM S OVER a KEY a"
        ... )
        ('CREATE STREAM T OVER a KEY k', 'CREATE STREAM S OVER "b c" KEY a')
        """
        (statement,) = parse(sql, _STARTS)
        return _edited(sql, [edit for part in _parts(statement) for edit in self._in_statement(part, sql)])

    def of_own_statement(self, sql: str) -> str:
        """The text of the statement that creates the renamed object. A SELECT without a name gets the new one as its
        label.

        >>> Renaming("select_1f", "Q").of_own_statement("SELECT STREAMED a FROM S")
        'Q: SELECT STREAMED a FROM S'
        """
        (statement,) = parse(sql, _STARTS)
        unnamed = isinstance(statement, st.ContinuousQuery) and statement.name is None
        return f"{_identifier(self.new)}: {sql}" if unnamed else self.of_statement(sql)

    def of_condition(self, text: str) -> str:
        """The text of a condition over columns of the renamed object.

        >>> Renaming("T", "U").of_condition("T.x > 0 AND t.y <> 'T.y'")
        "U.x > 0 AND U.y <> 'T.y'"
        """
        return _edited(text, self._qualifiers(text))

    def _in_statement(self, statement: st.Statement, sql: str) -> Iterator[_Edit]:
        end = 0
        for field in _NAMES:
            name = getattr(statement, field, None)
            if isinstance(name, st.Name) and self.is_old(name.text):
                start, end = _span(name, sql)
                yield _Edit(start, end, _identifier(self.new))
        query = getattr(statement, "select", None) or getattr(statement, "rows", None)
        if isinstance(query, exp.Expr):
            yield from self._after("ON", sql) if _is_summary(sql) else self._in_query(query, sql)
        elif isinstance(statement, st.CreateTable):
            yield from (edit for edit in self._qualifiers(sql) if edit.start >= end)
        else:
            yield from self._after("REFERENCES", sql)  # of a source or a stream with columns

    def _after(self, word: str, sql: str) -> Iterator[_Edit]:
        """The names after a keyword."""
        tokens = Dsms().tokenize(sql)
        for at, before in enumerate(tokens):
            token = _after_public(tokens[at + 1 :])
            if before.text.upper() == word and token is not None and self.is_old(token.text):
                yield _Edit(token.start, token.end + 1, _identifier(self.new))

    def _qualifiers(self, text: str) -> Iterator[_Edit]:
        """The old name before the names of columns."""
        tokens = Dsms().tokenize(text)
        for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
            first = before is None or before.token_type is not TokenType.DOT
            if first and after.token_type is TokenType.DOT and token.text.lower() == bare_name(self.old).lower():
                yield _Edit(token.start, token.end + 1, _identifier(bare_name(self.new)))

    def _in_query(self, query: exp.Expr, text: str) -> Iterator[_Edit]:
        for table in tables_in(query):
            name, spelled = name_and_place(table)
            if self.is_old(name):
                yield from self._at(table, _identifier_in(spelled), text)

    def _at(self, table: exp.Table, spelled: exp.Identifier, text: str) -> Iterator[_Edit]:
        start, end = spelled.meta["start"], spelled.meta["end"] + 1
        if "".join(text[start:end].replace('"', "").split()).casefold() != spelled.name.casefold():
            hint = "write it in brackets: R[Sync](S)"
            raise UserError(f'the name is a part of "{text[start:end]}"', hint=hint)  # SyncSQL's subscript, R_Sync(S)
        yield _Edit(start, end, _identifier(self.new))
        unwritten = table.meta.get(UNWRITTEN_ALIAS, False)
        if self.aliased and (unwritten or not table.alias) and isinstance(table.parent, _ALIASED):
            after = end if isinstance(table.this, exp.Identifier) else text.index(")", end) + 1
            yield _Edit(after, after, f" AS {_identifier(bare_name(self.old) if unwritten else self.old)}")

    def is_old(self, name: str) -> bool:
        """Whether it is the old name; names are case-insensitive."""
        return name.lower() == self.old.lower()


def declarations(sql: str) -> Iterator[st.Statement]:
    """The statement that creates an object, and the one inside of IF NOT EXISTS or CREATE OR REPLACE. Raises UserError
    if it is no such statement."""
    (statement,) = parse(sql, _STARTS)
    yield from _parts(statement)


def _parts(statement: st.Statement) -> Iterator[st.Statement]:
    """The statement, and the one inside of IF NOT EXISTS or CREATE OR REPLACE."""
    yield statement
    for field in ("statement", "query"):
        if isinstance(inner := getattr(statement, field, None), st.Statement):
            yield from _parts(inner)


def _is_summary(sql: str) -> bool:
    """Whether it is CREATE SUMMARY, whose query is not in its text."""
    first = [token.text.upper() for token in Dsms().tokenize(sql)[:4]]
    return [word for word in first if word not in ("OR", "REPLACE")][:2] == ["CREATE", "SUMMARY"]


def _after_public(tokens: list[Token]) -> Token | None:
    """The token of a name, which may come after `public.`."""
    first = [token.text.lower() for token in tokens[:2]]
    return next(iter(tokens[2:] if first == ["public", "."] else tokens), None)


def _identifier_in(spelled: exp.Expr) -> exp.Identifier:
    """The identifier of a name, which may be a column: the argument of R(S)."""
    return spelled if isinstance(spelled, exp.Identifier) else spelled.find(exp.Identifier)  # type: ignore[return-value]


def _span(name: st.Name, sql: str) -> tuple[int, int]:
    """The characters of a name. A name with hyphens consists of several tokens."""
    tokens = Dsms().tokenize(sql)
    first = last = next(at for at, token in enumerate(tokens) if place_of(token) == name.place)
    while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT:
        last += 2  # the name has its schema
    token, text = tokens[last], bare_name(name.text) if last > first else name.text
    length = token.end + 1 - token.start if token.text == text else len(text)
    return tokens[first].start, token.start + length


def _identifier(name: str) -> str:
    """The name as it is written in SQL, in quotes where it needs them."""
    if "." in name:
        return ".".join(map(_identifier, name.split(".")))
    tokens = Dsms().tokenize(name)
    plain = len(tokens) == 1 and tokens[0].token_type is TokenType.VAR and name.isascii()
    return name if plain else quoted_identifier(name)


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    for edit in sorted(set(edits), key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
