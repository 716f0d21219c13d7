"""The text of statements: whether it is complete, and a pointer to the location of an error in it."""

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError


def complete(text: str) -> bool:
    """True for empty text, for a backslash command, and for text that ends with a semicolon outside braces and quotes.

    >>> [complete(t) for t in ("", "\\\\q", "SELECT 1", "SELECT ';", "SELECT 1;", "AGGREGATE f { x; ")]
    [True, True, False, False, True, False]
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("\\"):
        return True
    try:
        kinds = [token.token_type for token in tokenize(stripped)]
    except TokenError:
        return False
    closed = kinds.count(TokenType.L_BRACE) == kinds.count(TokenType.R_BRACE)
    return closed and bool(kinds) and kinds[-1] == TokenType.SEMICOLON


def caret(sql: str, line: int, column: int) -> str:
    """The line of the text with a caret under the column, both counted from 1.

    >>> print(caret("SELECT a\\nFROM nope", 2, 6))
    FROM nope
         ^
    """
    lines = sql.splitlines() or [""]
    text = lines[min(line, len(lines)) - 1]
    pad = "".join("\t" if character == "\t" else " " for character in text[: column - 1].ljust(column - 1))
    return f"{text}\n{pad}^"
