"""Quoting of names and texts in SQL."""


def quoted_identifier(name: str) -> str:
    """The name in double quotes.

    >>> quoted_identifier("a b")
    '"a b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """The text as an SQL literal.

    >>> quoted_text("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
