"""Limits the size of statements, so that no text can slow the parser down or make code recurse too deep over its tree.

The limits apply to the text before it is parsed, and to the tree before any code recurses over it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model.limits import Limits
from dsms.model.position import position_of
from dsms.model.statements import TextLocation
from dsms.sql.parser.cursor import place_of
from operators.core.errors import UserError

_CLOSES = {")": "(", "]": "[", "}": "{", ">": "<", "END": "CASE"}
_OPENS = frozenset({"(", "[", "{", "CASE"})
#: Types whose parameters are in angle brackets.
_PARAMETRIC = frozenset({"ARRAY", "LIST", "STRUCT", "MAP", "ROW"})
_PREFIXES = frozenset({"NOT", "-", "+", "~", "INTERVAL", "DISTINCT", "ALL", "ANY", "SOME", "EXISTS"})
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
#: The nodes of LIKE and of functions with a regular expression; their argument `expression` is the pattern.
_PATTERN_NODES = (
    exp.Like, exp.ILike, exp.SimilarTo, exp.RegexpLike, exp.RegexpILike, exp.RegexpExtract, exp.RegexpReplace,
)  # fmt: skip
#: Functions that sqlglot has no class for, whose second argument is a pattern.
_PATTERN_FUNCTIONS = ("regexp_matches", "regexp_like")
_CONNECTIVES = (exp.And, exp.Or)
#: The most digits of a number; one with more than 38 is a DOUBLE.
_MAX_DIGITS = 400
#: A chain of at most this many conditions is left as the parser nests it.
_LONGEST_UNBALANCED = 16


def check_script(text: str, limits: Limits) -> None:
    """Raises UserError for a text that is too long, or is not valid Unicode."""
    limits.check("script_length", len(text), "the text has {} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start + 1} of the text is half of a surrogate pair", hint="send valid Unicode"
        ) from error


def check_statement(tokens: Sequence[Token], limits: Limits) -> None:
    """Raises SqlError for a statement that is too long or nested too deeply.

    >>> from dsms.sql.parser.dialect import Dsms
    >>> check_statement(Dsms().tokenize("SELECT ((1))"), Limits(statement_nesting=1))
    Traceback (most recent call last):
    ...
    operators.core.errors.SqlError: line 1, column 9: the statement is nested 2 levels deep, more than 1; the limit \
"statement_nesting" is set by DSMS_LIMITS
    """
    first = place_of(tokens[0])
    length = tokens[-1].end + 1 - tokens[0].start
    limits.check("statement_length", length, "the statement has {} characters", first)
    limits.check("statement_tokens", len(tokens), "the statement has {} tokens", first)
    for token in tokens:
        if token.token_type is TokenType.NUMBER and len(token.text) > _MAX_DIGITS:
            raise place_of(token).error(
                f"a number has {len(token.text)} digits", f"a number may have at most {_MAX_DIGITS} digits"
            )
    deepest, token = _nesting(tokens)
    limits.check("statement_nesting", deepest, "the statement is nested {} levels deep", place_of(token))


def _nesting(tokens: Sequence[Token]) -> tuple[int, Token]:
    """The greatest number of brackets, CASE and prefix operators that are open at once, and the last token to open
    one."""
    opened: list[str] = []
    prefixes, suffixes, before = 0, 0, ""
    deepest, opener = 0, tokens[0]
    for token in tokens:
        text = "" if token.token_type in _QUOTED else token.text.upper()
        prefixes = prefixes + 1 if text in _PREFIXES else 0
        if text == "[":  # INT[][][]
            suffixes = suffixes + 1 if before == "]" else 0
        if text in _OPENS or (text == "<" and before in _PARAMETRIC):
            opened.append(text)
        elif opened and _CLOSES.get(text) == opened[-1]:
            opened.pop()
        before = text
        if len(opened) + prefixes + suffixes > deepest:
            deepest, opener = len(opened) + prefixes + suffixes, token
    return deepest, opener


def within_limits(tree: exp.Expr, limits: Limits) -> exp.Expr:
    """The tree with long chains of AND and OR balanced. Raises SqlError if it exceeds a limit, such as its depth or the
    length of a pattern.

    >>> import sqlglot
    >>> chain = sqlglot.parse_one(" OR ".join(f"a = {number}" for number in range(1000)))
    >>> _depth(chain)[0], _depth(within_limits(chain, Limits()))[0]
    (1002, 13)
    """
    balance_conditions(tree)
    depth, deepest = _depth(tree)
    place = TextLocation(*position_of(deepest))
    limits.check("statement_levels", depth, "the statement has {} levels of operators and operands", place)
    for top in tree.find_all(exp.Binary):
        if not isinstance(top, exp.Connector) and not (isinstance(top.parent, exp.Binary) and top.arg_key == "this"):
            operands, place = 1 + len(_operators_of_chain(top)), TextLocation(*position_of(top))
            limits.check("statement_operands", operands, "an expression is a chain of {} operands", place)
    for select in tree.find_all(exp.Select):
        items, place = 1 + len(select.args.get("joins") or ()), TextLocation(*position_of(select))
        limits.check("from_items", items, "FROM joins {} relations", place)
    for match in tree.find_all(*_PATTERN_NODES, exp.Anonymous):
        length = len(_pattern(match))
        limits.check("pattern_length", length, "the pattern has {} characters", TextLocation(*position_of(match)))
    return tree


def _operators_of_chain(top: exp.Expr) -> list[exp.Expr]:
    """The operators of a chain such as `a + b + c`, from right to left."""
    operators: list[exp.Expr] = []
    node = top
    while isinstance(node, exp.Binary) and not isinstance(node, exp.Connector):
        operators.append(node)
        node = node.this
    return operators


def _pattern(match: exp.Expr) -> str:
    """The literal pattern of an operator or function; "" if it has none."""
    if isinstance(match, exp.Anonymous):
        pattern = (
            match.expressions[1] if match.name.lower() in _PATTERN_FUNCTIONS and len(match.expressions) > 1 else None
        )
    else:
        pattern = match.args.get("expression")
    return str(pattern.this) if isinstance(pattern, exp.Literal) and pattern.is_string else ""


def _depth(tree: exp.Expr) -> tuple[int, exp.Expr]:
    """The number of levels of a tree, and a node on the deepest one."""
    level, last, depth = [tree], tree, 0
    while level:
        last, depth = level[0], depth + 1
        level = [child for node in level for child in node.iter_expressions()]
    return depth, last


def balance_conditions(tree: exp.Expr) -> None:
    """Turns long chains of one connective into balanced trees. The conditions keep their order."""
    for top in [node for node in tree.walk() if type(node) in _CONNECTIVES]:
        if type(top.parent) is not type(top) and len(conditions := _conditions(top)) > _LONGEST_UNBALANCED:
            middle = len(conditions) // 2
            top.set("this", _joined(type(top), conditions[:middle]))
            top.set("expression", _joined(type(top), conditions[middle:]))


def _conditions(top: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of one connective, from left to right; the parser nests the chain on the left."""
    conditions: list[exp.Expr] = []
    node = top
    while type(node) is type(top):
        conditions.append(node.expression)
        node = node.this
    return [node, *reversed(conditions)]


def _joined(connective: type[exp.Expr], conditions: list[exp.Expr]) -> exp.Expr:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    left, right = _joined(connective, conditions[:middle]), _joined(connective, conditions[middle:])
    return connective(this=left, expression=right)
