"""Names in errors: those most like the wrong one first, and not more than a reader takes in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

#: The most names that an error lists.
_MOST = 24


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like a wrong one, at most three; upper and lower case are not told apart.

    >>> nearest("querys", ["QUERIES", "VIEWS"]), nearest("x", ["QUERIES"])
    (['QUERIES'], [])
    """
    folded = {each.casefold(): each for each in known}
    return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=3)]


def have(name: str, known: Sequence[str]) -> str:
    """A hint with the known names, the nearest ones first; those beyond the first two dozen are only counted.

    >>> have("lowr", ["abs", "lower", "upper"])
    'have: lower, abs, upper'
    >>> have("x", [str(number) for number in range(30)])[-12:]
    '23, 6 others'
    """
    close = nearest(name, known)
    listed = [*close, *(each for each in known if each not in close)]
    others = [f"{len(listed) - _MOST} others"] if len(listed) > _MOST + 1 else []
    return "have: " + ", ".join([*(listed[:_MOST] if others else listed), *others])
