"""The location (line and column) of a parsed node in the text, and errors that point there."""

from sqlglot import exp

from operators.core.errors import SqlError


def position_of(node: exp.Expr) -> tuple[int, int]:
    """Line and column, from 1, of the first word of the node whose location is known. If no word of the node has one,
    the location of the nodes around it; (1, 1) if these have none either.

    >>> import sqlglot
    >>> position_of(sqlglot.parse_one("SELECT 1 +\\n  total").find(exp.Column))
    (2, 3)
    """
    around: exp.Expr | None = node
    while around is not None:
        if places := [(part.meta["line"], _column(part)) for part in around.walk() if "line" in part.meta]:
            return min(places)
        around = around.parent
    return (1, 1)


def error_at(node: exp.Expr, message: str, *, hint: str = "") -> SqlError:
    """An error with the location of the node."""
    line, column = position_of(node)
    return SqlError(message, line=line, column=column, hint=hint)


def not_supported(node: exp.Expr, construct: str, hint: str = "") -> SqlError:
    """The error for an unsupported construct at the node."""
    return error_at(node, f"{construct} is not supported here", hint=hint)


def _column(part: exp.Expr) -> int:
    meta = part.meta
    # the parser stores the column of a word's last character: `total` at columns 3 to 7 has col 7, start 13, end 17
    return max(1, int(meta["col"]) - (int(meta.get("end", 0)) - int(meta.get("start", 0))))
