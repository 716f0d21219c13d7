"""A cursor over the tokens of a statement; its errors have the location and the choices."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.names import full_name
from dsms.model.statements import Name, TextLocation
from dsms.model.types import parse_type
from operators.core.errors import UserError
from operators.core.nearest import have

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)

#: The names of the only database and the only schema; a statement may write them before the name of an object.
DATABASE, PUBLIC = "DSMS", "PUBLIC"


def place_of(token: Token) -> TextLocation:
    """The location of a token's first character. sqlglot stores the column of the last one."""
    return TextLocation(token.line, max(token.col - (token.end - token.start), 1))


def unquoted_text(token: Token) -> str:
    """The text of an unquoted token; "" for a quoted token, which is never a bracket or a keyword."""
    return "" if token.token_type in _QUOTED else token.text


class Cursor:
    """Reads the tokens of one statement of a script from left to right."""

    def __init__(self, script: str, tokens: list[Token], limits: Limits = NO_LIMITS) -> None:
        self.script, self.limits = script, limits
        self.tokens = tokens
        self.at = 0
        self.sql = script[tokens[0].start : tokens[-1].end + 1]

    def more(self) -> bool:
        """Whether any tokens are left."""
        return self.at < len(self.tokens)

    def peek(self) -> Token:
        """The next token, without consuming it. Raises SqlError at the end."""
        if not self.more():
            last = place_of(self.tokens[-1])
            raise TextLocation(last.line, last.column + len(self.tokens[-1].text)).error("unexpected end of statement")
        return self.tokens[self.at]

    def peeks(self, word: str) -> bool:
        """Whether the next token is this word, and not a quoted name or a text."""
        return self.more() and unquoted_text(self.peek()).upper() == word

    def next(self) -> Token:
        """Consumes the next token."""
        token = self.peek()
        self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Consumes the words if they come next, and returns whether they did. A quoted name is never a word."""
        return self._pass(words, [unquoted_text(token) for token in self.tokens[self.at : self.at + len(words)]])

    def _pass_names(self, *names: str) -> bool:
        """Consumes the names, quoted or not, if they come next, and returns whether they did."""
        return self._pass(names, [token.text for token in self.tokens[self.at : self.at + len(names)]])

    def _pass(self, wanted: Sequence[str], ahead: Sequence[str]) -> bool:
        found = [text.upper() for text in ahead] == list(wanted)
        self.at += len(wanted) if found else 0
        return found

    def expect(self, word: str) -> None:
        """Consumes the word. Raises SqlError if another one comes next."""
        if not self.accept(word):
            actual = f'"{self.peek().text}"' if self.more() else "the end"
            self.fail(f"expected {word}, found {actual}")

    def one_of(self, choices: tuple[str, ...], what: str) -> str:
        """Consumes one of the words and returns it in upper case. Raises SqlError with the choices."""
        word = self.peek().text.upper()
        if word not in choices:
            self.fail(f'unknown {what} "{self.peek().text}"', have(self.peek().text, choices))
        self.at += 1
        return word

    def name(self, what: str) -> Name:
        """Consumes an identifier, with or without `public.` or `dsms.public.` before it. Errors use the noun `what`."""
        self._pass_names(DATABASE, ".", PUBLIC, ".") or self._pass_names(PUBLIC, ".")
        return self.name_of(self.next(), what)

    def object_name(self, what: str) -> Name:
        """Consumes the full name of an object: `name`, `schema.name` or `dsms.schema.name`."""
        self.at += 2 * (self.dots_ahead() == 2 and self.peek().text.upper() == DATABASE)
        place = place_of(self.peek())
        if self.peek().text.upper() == PUBLIC or not self.dots_ahead():
            return self.name(what)
        schema = self.name_of(self.next(), "schema name").text
        self.expect(".")
        return Name(full_name(schema, self.name_of(self.next(), what).text), place)

    def dots_ahead(self) -> int:
        """How many names follow the next token, each after a dot."""
        texts = [unquoted_text(token) for token in self.tokens[self.at + 1 :: 2]]
        return next((at for at, text in enumerate(texts) if text != "."), len(texts))

    def names(self, what: str) -> tuple[Name, ...]:
        """Consumes a list of names separated by commas."""
        listed = [self.name(what)]
        while self.accept(","):
            listed.append(self.name(what))
        return tuple(listed)

    def rest_as_name(self, what: str, optional: tuple[str, ...] = ()) -> Name:
        """Consumes the rest of the statement, which is an identifier, after one of the `optional` words or without one.
        If such a word is all that is left, it is the identifier."""
        if self.peek().text.upper() in optional and len(self.tokens) - self.at > 1:
            self.next()
        name = self.object_name(what)
        self.end()
        return name

    def name_of(self, token: Token, what: str) -> Name:
        """The identifier that a token spells, subscript digits as ordinary digits. Raises SqlError for other tokens."""
        text = unicodedata.normalize("NFKC", token.text)
        if not all(part.isidentifier() for part in text.replace("-", "_").split(".")):
            raise place_of(token).error(f'"{token.text}" is not a valid {what}')
        return Name(text, place_of(token))

    def until(self, *stops: str, opening: str = "([<", closing: str = ")]>") -> list[Token]:
        """Consumes the tokens before the first one outside brackets that is in `stops`, which are in upper case. By
        default `<` and `>` are brackets, as in types."""
        depth, taken = 0, []
        while not (depth == 0 and unquoted_text(self.peek()).upper() in stops):
            depth += (unquoted_text(self.peek()) or " ") in opening
            depth -= (unquoted_text(self.peek()) or " ") in closing
            taken.append(self.next())
        return taken

    def text_of(self, tokens: list[Token]) -> str:
        """The script's text from the first to the last of the tokens. Raises SqlError if there are no tokens."""
        if not tokens:
            self.fail(f'expected something before "{self.tokens[min(self.at, len(self.tokens) - 1)].text}"')
        return self.script[tokens[0].start : tokens[-1].end + 1]

    def is_type(self, tokens: list[Token]) -> bool:
        """Whether the tokens are the text of a type."""
        try:
            parse_type(self.text_of(tokens))
        except UserError:
            return False
        return True

    def rest_without(self, *words: str) -> tuple[str, str | None]:
        """Consumes the rest of the statement. Returns its text without the first of `words` after a SELECT, and that
        word, or None. Blanks replace the word and the script before the statement: locations stay the same.

        A word before a token that cannot start an expression is a column: `SELECT complete FROM S`. The first of
        `words` (STREAMED) is never a column.
        """
        self.peek()
        tokens = self.tokens[self.at :]
        text = _blank(self.script[: tokens[0].start]) + self.script[tokens[0].start : tokens[-1].end + 1]
        self.at = len(self.tokens)
        for number, token in enumerate(tokens[1:], 1):
            word = token.text.upper()
            column = word != words[0] and _is_column(tokens, number)
            if word in words and tokens[number - 1].text.upper() == "SELECT" and not column:
                # `SELECT STREAMED a` becomes `SELECT          a`
                return text[: token.start] + " " * (token.end + 1 - token.start) + text[token.end + 1 :], word
        return text, None

    def end(self) -> None:
        """Raises SqlError unless all tokens are consumed."""
        if self.more():
            self.fail(f'unexpected "{self.peek().text}"')

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Raises SqlError at the next token."""
        raise place_of(self.tokens[min(self.at, len(self.tokens) - 1)]).error(message, hint)


def _is_column(tokens: list[Token], number: int) -> bool:
    after = tokens[number + 1].text.upper() if number + 1 < len(tokens) else ""
    return after in ("", "FROM", ",", "AS", ".", "=", "+", "-", "/", "<", ">", "<=", ">=", "||", ")")


def _blank(text: str) -> str:
    return "".join("\n" if character == "\n" else " " for character in text)
