"""Splits scripts into statements, and fills in the parameters of a statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: Matches a text, a quoted name or a comment, which contain neither parameters nor ends of statements; else a parameter
#: or the end of a statement.
_PARTS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$|--[^\n]*|/\*.*?\*/|(?P<parameter>\$\d+)|(?P<end>;)""", re.DOTALL
)


def filled(sql: str, literals: Sequence[str]) -> str:
    """The statement with `$1`, `$2`, … replaced by literals. Raises IndexError if one is missing.

    >>> filled("SELECT '$1', $2 FROM t -- $3", ["7", "'x'"])
    "SELECT '$1', 'x' FROM t -- $3"
    """
    return template_of(sql).filled(literals)


class Template(NamedTuple):
    """The texts before each parameter of a statement with the number of that parameter, and the text after the last."""

    parts: tuple[tuple[str, int], ...]
    end: str

    def filled(self, literals: Sequence[str]) -> str:
        """The statement with literals in place of the parameters. Raises IndexError if one is missing."""
        if wrong := [number for _, number in self.parts if not 1 <= number <= len(literals)]:
            raise IndexError(f"there is no parameter ${wrong[0]}")
        return "".join([text + literals[number - 1] for text, number in self.parts]) + self.end


def template_of(sql: str) -> Template:
    """The statement, cut at its parameters.

    >>> template_of("SELECT $2 + $1")
    Template(parts=(('SELECT ', 2), (' + ', 1)), end='')
    """
    found = [each for each in _PARTS.finditer(sql) if each["parameter"]]
    ends = [0, *(each.end() for each in found)]
    parts = ((sql[end : each.start()], int(each["parameter"][1:])) for end, each in zip(ends, found, strict=False))
    return Template(tuple(parts), sql[ends[-1] :])


def parameters_in(sql: str) -> int:
    """The greatest number of a parameter; 0 if there are no parameters.

    >>> parameters_in("SELECT $2, '$9'"), parameters_in("SELECT 1")
    (2, 0)
    """
    return max((int(found["parameter"][1:]) for found in _PARTS.finditer(sql) if found["parameter"]), default=0)


def statements_in(sql: str) -> list[str]:
    """The statements of a script, without empty ones.

    >>> statements_in("BEGIN; SELECT ';' ; ")
    ['BEGIN', "SELECT ';'"]
    """
    cuts = [-1, *(found.start() for found in _PARTS.finditer(sql) if found["end"]), len(sql)]
    parts = (sql[start + 1 : end].strip() for start, end in zip(cuts, cuts[1:], strict=False))
    return [part for part in parts if without_comments(part).strip()]


def without_comments(sql: str) -> str:
    """The statement without comments before, in and after it.

    >>> without_comments("/* a */ SELECT 1 -- b")
    ' SELECT 1 '
    """

    def kept(found: re.Match[str]) -> str:
        return "" if found[0].startswith(("--", "/*")) else found[0]

    return _PARTS.sub(kept, sql)


def words(sql: str, most: int = 4) -> tuple[str, ...]:
    """The first words in capitals.

    >>> words("set  Session characteristics as transaction")
    ('SET', 'SESSION', 'CHARACTERISTICS', 'AS')
    """
    return tuple(without_comments(sql).upper().replace("=", " = ").split()[:most])
