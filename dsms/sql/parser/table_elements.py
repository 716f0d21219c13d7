"""Parses the elements of CREATE TABLE: columns with their constraints, and constraints of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.model.names import bare_name
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.declarations import column
from dsms.sql.parser.queries import selected_expression

#: The words that begin a constraint of a column.
_CONSTRAINT_WORDS = (
    "NOT",
    "NULL",
    "PRIMARY KEY",
    "DEFAULT",
    "CHECK",
    "CONSTRAINT",
    "UNIQUE",
    "REFERENCES",
    "GENERATED",
    "COLLATE",
)
#: Constraints that other databases have, and what to do instead.
_REFUSED = {
    "UNIQUE": "use PRIMARY KEY, the only constraint that keeps values unique",
    "REFERENCES": "leave it out: rows are not checked against other tables",
    "FOREIGN KEY": "leave it out: rows are not checked against other tables",
    "GENERATED": "compute the column in a view; row numbers must be given in the INSERT",
    "COLLATE": "leave it out: text is ordered by code points",
    "EXCLUDE": "leave it out",
}

#: The most checks of a table: every statement that writes to the table evaluates all of them.
_MAX_CHECKS = 100
#: The most blanks before an expression. For an expression further to the right, errors name a column that is too small.
_MAX_BLANKS = 100_000


@dataclass
class TableElements:
    """The elements of one CREATE TABLE that the parser has read so far."""

    table: st.Name
    columns: list[st.ColumnDefinition] = field(default_factory=list)
    keys: list[st.Name] = field(default_factory=list)
    defaults: list[tuple[st.Name, st.ParsedExpression]] = field(default_factory=list)
    checks: list[tuple[str, st.ParsedExpression]] = field(default_factory=list)

    def add_check(self, name: st.Name | None, default_name: str, condition: st.ParsedExpression) -> None:
        """Adds a CHECK, called `name` or else `default_name`, with a number if needed. Raises SqlError if `name` is
        taken, or for too many checks."""
        taken = {taken for taken, _ in self.checks}
        if len(taken) >= _MAX_CHECKS:
            raise self.table.place.error(f"a table has at most {_MAX_CHECKS} checks", "combine conditions with AND")
        if name is not None and name.text in taken:
            raise name.place.error(f'two constraints are named "{name.text}"')
        free = (f"{default_name}{number or ''}" for number in range(len(taken) + 1))
        self.checks.append((name.text if name else next(each for each in free if each not in taken), condition))

    def not_null(self) -> tuple[st.ColumnDefinition, ...]:
        """The columns; those of the key are NOT NULL. Raises SqlError for a key column that does not exist."""
        have = [column.name.text for column in self.columns]
        for key in self.keys:
            if key.text.lower() not in (name.lower() for name in have):
                raise key.place.error(f'key column "{key.text}" not found', f"have: {', '.join(have)}")
        of_key = {key.text.lower() for key in self.keys}
        return tuple(
            st.ColumnDefinition(c.name, c.type, c.nullable and c.name.text.lower() not in of_key) for c in self.columns
        )


def read_element(cursor: Cursor, elements: TableElements) -> None:
    """Reads one element: `name type constraints`, `PRIMARY KEY (columns)` or `[CONSTRAINT name] CHECK (predicate)`."""
    if _is_constraint(cursor):
        name = cursor.name("name of the constraint") if cursor.accept("CONSTRAINT") else None
        _table_constraint(cursor, elements, name)
        return
    if cursor.peeks(")"):
        cursor.fail("a column needs a name and a type")
    defined = column([cursor.next(), *cursor.until(",", ")", *_CONSTRAINT_WORDS)], cursor)
    elements.columns.append(defined)
    tokens = _rest_of_element(cursor)
    starts = [*constraint_starts(tokens), len(tokens)]
    constraint_name: st.Name | None = None
    for group in (tokens[start:end] for start, end in zip(starts, starts[1:], strict=False)):
        if unquoted_text(group[0]).upper() == "CONSTRAINT":
            if len(group) != 2 or group[-1] is tokens[-1]:
                raise place_of(group[0]).error("CONSTRAINT needs a name and a condition", "CONSTRAINT name CHECK (…)")
            constraint_name = cursor.name_of(group[1], "name of the constraint")
            continue
        _column_constraint(cursor, elements, defined.name, group, constraint_name)
        constraint_name = None


def _is_constraint(cursor: Cursor) -> bool:
    """Whether a constraint of the table comes next, not a column whose name is a word such as `check`."""
    word = unquoted_text(cursor.peek()).upper()
    behind = cursor.tokens[cursor.at + 1 : cursor.at + 2]
    opens = bool(behind) and unquoted_text(behind[0]) == "("
    return word in ("CONSTRAINT", "PRIMARY KEY", "FOREIGN KEY") or (opens and word in ("CHECK", "UNIQUE", "EXCLUDE"))


def constraint_starts(tokens: list[Token]) -> Iterator[int]:
    """The indexes at which constraints begin: outside brackets and CASE, and not directly after DEFAULT, where `NULL`
    is a value."""
    depth, before = 0, ""
    for number, token in enumerate(tokens):
        word = unquoted_text(token).upper()
        depth -= word in (")", "]", "END")
        begins = word in _CONSTRAINT_WORDS and not depth and before != "DEFAULT"
        if begins and not (before == "NOT" and word == "NULL"):
            yield number
        depth += word in ("(", "[", "CASE")
        before = word


def _rest_of_element(cursor: Cursor) -> list[Token]:
    """The remaining tokens of the element; `<` is a comparison here, not a bracket."""
    return cursor.until(",", ")", opening="([", closing=")]")


def _table_constraint(cursor: Cursor, elements: TableElements, name: st.Name | None) -> None:
    first = cursor.next()
    word = unquoted_text(first).upper()
    if word == "PRIMARY KEY":
        cursor.expect("(")
        _add_keys(elements, cursor.names("key column"), first)
        cursor.expect(")")
    elif word == "CHECK":
        elements.add_check(
            name, f"{bare_name(elements.table.text)}_check", _condition(cursor, _rest_of_element(cursor))
        )
    else:
        _refuse(first)


def _column_constraint(
    cursor: Cursor, elements: TableElements, name: st.Name, group: list[Token], constraint_name: st.Name | None
) -> None:
    """Adds the constraint of the column `name` that the tokens of `group` spell."""
    words = [unquoted_text(token).upper() for token in group]
    if words == ["PRIMARY KEY"]:
        _add_keys(elements, (name,), group[0])
    elif words == ["NOT", "NULL"]:
        elements.columns[-1] = st.ColumnDefinition(name, elements.columns[-1].type, nullable=False)
    elif words[0] == "DEFAULT":
        if any(other is name for other, _ in elements.defaults):
            raise place_of(group[0]).error(f'column "{name.text}" has two defaults')
        elements.defaults.append((name, parse_expression(cursor, group[1:])))
    elif words[0] == "CHECK":
        default_name = f"{bare_name(elements.table.text)}_{name.text}_check"
        elements.add_check(constraint_name, default_name, _condition(cursor, group[1:]))
    elif words != ["NULL"]:
        _refuse(group[0])


def _condition(cursor: Cursor, tokens: list[Token]) -> st.ParsedExpression:
    if tokens and unquoted_text(tokens[0]) != "(":
        raise place_of(tokens[0]).error("expected a condition in parentheses", "CHECK (column > 0)")
    return parse_expression(cursor, tokens)


def _add_keys(elements: TableElements, keys: tuple[st.Name, ...], first: Token) -> None:
    if elements.keys:
        raise place_of(first).error("a table has only one PRIMARY KEY", "for several columns use PRIMARY KEY (a, b)")
    elements.keys.extend(keys)


def _refuse(token: Token) -> None:
    word = unquoted_text(token).upper()
    hint = _REFUSED.get(word, "have: NOT NULL, PRIMARY KEY, DEFAULT expression, CHECK (predicate)")
    raise place_of(token).error(f"{token.text.upper()} is not supported in CREATE TABLE", hint)


def parse_expression(cursor: Cursor, tokens: list[Token]) -> st.ParsedExpression:
    """Parses an expression and keeps its text. Its nodes have their locations in the script. Raises SqlError."""
    text, first, create = cursor.text_of(tokens), tokens[0].start, cursor.tokens[0]
    # parses SELECT and the expression, which blanks keep at its location in the script
    before, behind = _blank(cursor.script[: create.start]), _blank(cursor.script[create.end + 1 : first])
    return st.ParsedExpression(selected_expression(f"{before}SELECT{behind}{text}", cursor.limits), text)


def _blank(text: str) -> str:
    """Replaces a text by line breaks and blanks: the text after it keeps its line and column."""
    lines, last = text.count("\n"), len(text) - text.rfind("\n") - 1
    return "\n" * lines + " " * min(last, _MAX_BLANKS)
