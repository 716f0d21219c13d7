"""Whether a text typed so far is a whole statement."""

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError


def complete(text: str) -> bool:
    """True for nothing, for a backslash command, and for text that ends with a semicolon outside braces and quotes.

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
