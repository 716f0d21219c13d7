"""An upper bound of the cost of a search for a pattern. Costly searches are refused, because one row must not occupy an
executor for seconds.

The search is linear in the text. Where a pattern can match in several ways, each byte may cost a step for each position
(state of the automaton) of the pattern. A class of Unicode characters, such as `\\w`, has several positions. Literal
characters ("signs") have no position, unless they are optional, in alternatives, or case is ignored; of alternatives,
only the literal characters of the longest one are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

#: The limit of the steps for a text, about a second.
MAX_STEPS: Final = 50_000_000
#: A search with this many positions takes at most `MAX_STEPS`, even in a text of the largest size.
FEW_POSITIONS: Final = 50
#: The positions of a class of many characters; a class of few characters has one.
_UNICODE: Final = 4
_TOKENS = re.compile(
    r"""(?P<repeated>\{(?P<least>\d+)(?:(?P<open>,)(?P<most>\d*))?\}) | (?P<unicode>\\[pP](?:\{[^}]*\}|.)|\\[wWdDsS])
    | (?P<escaped>\\[xuU]\{[^}]*\}|\\.) | (?P<any>\.) | (?P<loop>[*+?]) | (?P<or>\|)
    | (?P<begin>\((?:\?(?:P?<\w+>|[A-Za-z-]*:?))?) | (?P<end>\))
    | (?P<open_set>\[\^?\]?) | (?P<close_set>\]) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


_ANY_CASE = re.compile(r"\(\?[A-Za-hj-z]*i")


@dataclass
class _Group:
    """A group of a pattern: its positions, and how many signs the current and the longest alternative have."""

    weight: int = 0
    signs: int = 0
    longest: int = 0
    alternatives: bool = False

    def add(self, weight: int, signs: int) -> None:
        """Adds a part, or enlarges the last one."""
        self.weight, self.signs = self.weight + weight, self.signs + signs
        self.longest = max(self.longest, self.signs)

    def next_alternative(self) -> None:
        """Starts the next alternative, after a `|`."""
        self.signs, self.alternatives = 0, True

    def whole(self, any_case: bool) -> tuple[int, int]:
        """Returns the positions of the group, and the number of its signs that are not counted as positions."""
        counted = self.alternatives or any_case
        return self.weight + counted * self.longest, 0 if counted else self.longest


@lru_cache(maxsize=4096)
def nfa_positions(pattern: str) -> int:
    r"""Returns at how many positions a search for a regular expression may be at once. Repetitions are expanded.

    >>> nfa_positions("plain text"), nfa_positions("a.c"), nfa_positions(r"(\w{3}x){10}"), nfa_positions("[a-z]{100}")
    (0, 1, 120, 100)
    >>> nfa_positions("a?b?(cd)*"), nfa_positions("(a|b)(cd|e)"), nfa_positions("one|three"), nfa_positions("(?i)text")
    (4, 3, 5, 4)
    """
    any_case, groups, last, signs = _ANY_CASE.search(pattern) is not None, [_Group()], 0, 0
    for kind, times, weight in _parts(pattern):
        group = groups[-1]
        if kind == "begin":
            groups.append(_Group())
        elif kind == "or":
            group.next_alternative()
        elif kind == "loop":
            group.add(signs, -signs)
            last, signs = last + signs, 0
        elif kind == "repeated":
            group.add(max(last, 1) * times - last, 0)
            last = max(last, 1) * times
        elif kind == "end" and len(groups) > 1:
            last, signs = groups.pop().whole(any_case)
            groups[-1].add(last, signs)
        else:
            last, signs = weight, int(kind in ("sign", "escaped"))
            group.add(last, signs)
    return sum(group.whole(any_case)[0] for group in groups)


def like_positions(pattern: str) -> int:
    """As `nfa_positions`, for a pattern of LIKE."""
    return pattern.count("%") + pattern.count("_")


def _parts(pattern: str) -> Iterator[tuple[str, int, int]]:
    """Yields the kind of each part of a pattern, how often the part before it is repeated, and its positions. A set is
    one part."""
    depth, widest = 0, 1
    for token in _TOKENS.finditer(pattern):
        kind = token.lastgroup or ""
        if kind == "open_set":
            depth, widest = depth + 1, 1 if depth == 0 else widest
        elif depth:
            widest = _UNICODE if kind == "unicode" else widest
            depth -= kind == "close_set"
            if not depth:
                yield "set", 1, widest
        elif token["repeated"]:
            yield "repeated", _times(token), 0
        elif kind in ("unicode", "any"):
            yield kind, 1, _UNICODE if kind == "unicode" else 1
        else:
            yield kind, 1, 0


def _times(token: re.Match[str]) -> int:
    least, most = int(token["least"][:9]), int((token["most"] or "0")[:9])
    return max(least + bool(token["open"]), most, 1)
