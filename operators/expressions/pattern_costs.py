"""What a search for a pattern costs at most, so that no row occupies an executor for seconds.

The search is linear in the text. Where a pattern leaves open how it matches, each byte may cost a step for each
position of it; one of a class of Unicode, such as `\\w`, stands for a few. Signs that stand for themselves cost nothing
of note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

#: The most steps for a text, about a second.
MOST_STEPS: Final = 50_000_000
#: So many positions are never too many for a text of the largest size.
FEW_POSITIONS: Final = 50
#: The positions of a class of many characters, compared with one of a few.
_UNICODE: Final = 4
_TOKENS = re.compile(
    r"""(?P<repeated>\{(?P<least>\d+)(?:(?P<open>,)(?P<most>\d*))?\}) | (?P<unicode>\\[pP](?:\{[^}]*\}|.)|\\[wWdDsS])
    | (?P<escaped>\\[xuU]\{[^}]*\}|\\.) | (?P<any>\.) | (?P<loop>[*+?]) | (?P<begin>\() | (?P<end>\))
    | (?P<open_set>\[\^?\]?) | (?P<close_set>\]) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=4096)
def positions(pattern: str) -> int:
    r"""The positions at which a search for a regular expression may be at once, with repetitions written out.

    >>> positions("plain text"), positions("a.c"), positions(r"(\w{3}x){10}"), positions("[a-z]{100}")
    (0, 1, 120, 100)
    """
    groups, last = [0], 0
    for kind, times, weight in _parts(pattern):
        if kind == "begin":
            groups.append(0)
        elif kind == "repeated":
            groups[-1] += max(last, 1) * times - last
            last = max(last, 1) * times
        else:
            last = groups.pop() if kind == "end" and len(groups) > 1 else weight
            groups[-1] += last
    return sum(groups)


def like_positions(pattern: str) -> int:
    """As `positions`, for a pattern of LIKE."""
    return pattern.count("%") + pattern.count("_")


def _parts(pattern: str) -> Iterator[tuple[str, int, int]]:
    """The parts of a pattern: its kind, how often the part before it is repeated, and its positions. A set is one."""
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
        elif kind != "loop":
            yield kind, 1, 0


def _times(token: re.Match[str]) -> int:
    least, most = int(token["least"][:9]), int((token["most"] or "0")[:9])
    return max(least + bool(token["open"]), most, 1)
