"""The search for matches, compared with Python's regular expressions over one letter per row, also if it takes over
attempts from an earlier sequence of rows."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from operators.core.errors import UserError
from operators.patterns.pattern import Pattern, can_be_empty, parse_pattern, program_of, to_text, variables
from operators.patterns.search import Path, Search, Skip

#: By letter, the variables that a row matches.
LETTERS = {"a": "A", "b": "B", "c": "AB", "d": "BC", "e": "ABC", "f": ""}
ROWS = st.text("abcdef", max_size=14)


def _quantified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    marks = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "??", "{1,3}?"])
    return st.builds(lambda part, mark: f"({part}){mark}", inner, marks)


PATTERNS = st.recursive(
    st.sampled_from(["A", "B", "C"]),
    lambda inner: st.one_of(
        _quantified(inner),
        st.lists(inner, min_size=2, max_size=3).map(" ".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' | '.join(parts)})"),
    ),
    max_leaves=6,
)


def expression(pattern: str) -> str:
    """A pattern as a regular expression over letters."""
    classes = {name: f"[{''.join(letter for letter, can in LETTERS.items() if name in can)}]" for name in "ABC"}
    return "".join(classes.get(letter, letter) for letter in pattern.replace(" ", ""))


def holds_in(rows: str):
    def holds(variable: str, at: int, start: int, path: Path) -> bool:
        return variable in LETTERS[rows[at]]

    return holds


def spans(search: Search, rows: str) -> list[tuple[int, int]]:
    tried = search.attempts(len(rows), holds_in(rows))
    return [(each.start, each.start + len(each.variables)) for each in tried if each.variables is not None]


def pattern_of(text: str) -> Pattern | None:
    """The pattern; None if it is refused because it can match an empty sequence of rows."""
    try:
        return parse_pattern(text)
    except UserError as error:
        assert "can match an empty sequence" in error.message
        return None


@given(PATTERNS, ROWS, st.booleans())
def test_matches_are_those_of_regular_expressions(text: str, rows: str, local: bool) -> None:
    pattern = pattern_of(text)
    if pattern is None:
        return
    search = Search(program_of(pattern), local=local)
    assert spans(search, rows) == [found.span() for found in re.finditer(expression(text), rows)]
    overlapping = Search(program_of(pattern), Skip("next"), local=local)
    wanted = [(at, found.end()) for at in range(len(rows)) if (found := re.compile(expression(text)).match(rows, at))]
    assert spans(overlapping, rows) == wanted


@given(PATTERNS, ROWS, ROWS, ROWS, st.sampled_from(["past", "next"]), st.booleans())
def test_reused_matches_equal_a_new_search(text, same, before, after, to, timed) -> None:
    pattern = pattern_of(text)
    if pattern is None:
        return
    search = Search(program_of(pattern), Skip(to), has_within=timed)
    earlier = search.attempts(len(same + before), holds_in(same + before))
    rows = same + after
    fresh = search.attempts(len(rows), holds_in(rows))
    reused = search.attempts(len(rows), holds_in(rows), earlier, len(same))
    assert [(each.start, each.variables) for each in reused] == [(each.start, each.variables) for each in fresh]


@given(PATTERNS)
def test_a_pattern_is_read_as_it_is_written(text: str) -> None:
    pattern = pattern_of(text)
    if pattern is not None:
        assert to_text(parse_pattern(to_text(pattern))) == to_text(pattern)
        assert not can_be_empty(pattern) and set(variables(pattern)) <= set("ABC")


def test_permute_is_every_order() -> None:
    search = Search(program_of(parse_pattern("PERMUTE(A, B C)")))
    assert [spans(search, rows) for rows in ("abd", "bda", "bad")] == [[(0, 3)], [(0, 3)], []]
