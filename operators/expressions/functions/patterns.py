"""Functions of patterns: LIKE and regular expressions, in the syntax of Rust's regex crate. Searches take linear
time."""

import re
from collections.abc import Callable

import polars as pl
from polars.exceptions import ComputeError

from operators.core.errors import UserError
from operators.expressions.function import (
    Arguments,
    Function,
    Rule,
    Signature,
    lit_text,
    literal_value,
    may_fail_call,
    never_fails_call,
    quoted,
)
from operators.expressions.functions.entry import BOOLEAN, LONG, TEXT, constant, with_constants
from operators.expressions.functions.rules import exactly
from operators.expressions.tree import Call


def _like_regex(pattern: str, escape: str) -> str:
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(parts)


#: The special characters of SIMILAR TO that mean the same in a regular expression.
_SIMILAR_SIGNS = frozenset("|*+?{}(),0123456789")


def similar_regex(pattern: str) -> str:
    r"""Returns a pattern of SIMILAR TO as a regular expression over the whole text; a backslash makes the next
    character an ordinary one. Raises UserError if the pattern ends with a backslash.

    >>> similar_regex("%(b|d)_+"), similar_regex(r"1.5\%")
    ('(?s)^(?:.*(b|d).+)$', '(?s)^(?:1\\.5%)$')
    """
    parts: list[str] = []
    characters, brackets = iter(pattern), False
    for character in characters:
        if character == "\\":
            if (escaped := next(characters, None)) is None:
                raise UserError(
                    f'the pattern "{pattern}" of SIMILAR TO ends with a backslash', hint="write two for a literal one"
                )
            parts.append(re.escape(escaped))
        elif brackets or character in "[]":
            brackets = character != "]"
            parts.append(character)
        else:
            like = {"%": ".*", "_": "."}.get(character)
            parts.append(like or (character if character in _SIMILAR_SIGNS else re.escape(character)))
    return f"(?s)^(?:{''.join(parts)})$"


def _like(flags: str) -> Callable[..., pl.Expr]:
    def build(call: Call, text: pl.Expr, pattern: pl.Expr, *_: pl.Expr) -> pl.Expr:
        if constant(call.arguments[1]):
            escape = literal_value(call.arguments[2]) if len(call.arguments) == 3 else ""
            return text.str.contains(f"(?{flags})^{_like_regex(literal_value(call.arguments[1]), escape)}$")
        body = (
            pattern.str.escape_regex().str.replace_all("%", ".*", literal=True).str.replace_all("_", ".", literal=True)
        )
        return text.str.contains(pl.concat_str(lit_text(f"(?{flags})^"), body, lit_text("$")), strict=False)

    return build


def _like_rule(arguments: Arguments) -> Signature | None:
    signature = exactly(TEXT, TEXT, TEXT, result=BOOLEAN, optional=1)(arguments)
    if len(arguments) == 3 and not (constant(arguments[1]) and constant(arguments[2])):
        return None
    if signature and len(arguments) == 3 and len(literal_value(arguments[2])) > 1:
        raise UserError("ESCAPE takes exactly one character")
    return signature


def _checked(rule: Rule) -> Rule:
    """Returns a rule that also compiles a literal pattern: a statement with an invalid pattern is refused."""

    def checked(arguments: Arguments) -> Signature | None:
        signature = rule(arguments)
        if signature is not None and constant(arguments[1]):
            pattern = literal_value(arguments[1])
            try:
                pl.Series([""]).str.contains(pattern)
            except ComputeError as error:
                raise UserError(f'"{pattern}" is not a valid regular expression') from error
        return signature

    return checked


def _matches(_: Call, text: pl.Expr, pattern: pl.Expr) -> pl.Expr:
    return text.str.contains(pattern, strict=False)


def _extract(call: Call, text: pl.Expr, *_: pl.Expr) -> pl.Expr:
    group = literal_value(call.arguments[2]) if len(call.arguments) == 3 else 0
    return text.str.extract(literal_value(call.arguments[1]), group)


def _replace(call: Call, text: pl.Expr, *_: pl.Expr) -> pl.Expr:
    pattern, new = (literal_value(argument) for argument in call.arguments[1:3])
    flags = literal_value(call.arguments[3]) if len(call.arguments) == 4 else ""
    pattern = "(?i)" + pattern if "i" in flags else pattern
    new = re.sub(r"\\(\d)", r"${\1}", new.replace("$", "$$"))
    return text.str.replace_all(pattern, new) if "g" in flags else text.str.replace(pattern, new)


def _invalid(call: Call, *_: pl.Expr) -> pl.Expr:
    return lit_text(f"invalid regular expression in {quoted(call)}")


_MATCH = Function(
    "patterns",
    "text and a regular expression",
    "True if a part of the text matches; also a ~ p and REGEXP_MATCHES. SIMILAR TO takes SQL's patterns.",
    "REGEXP_LIKE('abc', 'b.')",
    _checked(exactly(TEXT, TEXT, result=BOOLEAN)),
    may_fail_call(_matches, _invalid),
)

PATTERNS: dict[str, Function] = {
    "like": Function(
        "patterns",
        "text, a pattern and an escape character",
        "True if the whole text matches; % matches any characters, _ matches one.",
        "'abc' LIKE 'a%'",
        _like_rule,
        never_fails_call(_like("s")),
    ),
    "ilike": Function(
        "patterns",
        "text, a pattern and an escape character",
        "As LIKE, but ignores case.",
        "'ABC' ILIKE 'a%'",
        _like_rule,
        never_fails_call(_like("si")),
    ),
    "regexp_like": _MATCH,
    "regexp_extract": Function(
        "patterns",
        "text, a literal regular expression and a group",
        "The first match, or its group; NULL if nothing matches.",
        "REGEXP_EXTRACT('abc', 'b(.)', 1)",
        _checked(with_constants(exactly(TEXT, TEXT, LONG, result=TEXT, nullable=True, optional=1), 1, 2)),
        never_fails_call(_extract),
    ),
    "regexp_replace": Function(
        "patterns",
        "text, a literal regular expression, a literal replacement and flags",
        "The text with the first match replaced, or all matches with the flag 'g'; \\1 is the first group.",
        "REGEXP_REPLACE('aa', 'a', 'b', 'g')",
        _checked(with_constants(exactly(TEXT, TEXT, TEXT, TEXT, result=TEXT, optional=1), 1, 2, 3)),
        never_fails_call(_replace),
    ),
}
