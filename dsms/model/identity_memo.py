"""Memoization of pure functions by the identity of their immutable arguments.

Plans and catalogs are immutable, but they are slow to compare and, if they contain dicts, not hashable. Their identity
is a cheap key. For an equal but different object, the result is computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def memoized_by_identity(size: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator for pure functions with positional arguments. It keeps the `size` most recently used results, by the
    identity of the arguments.

    >>> calls = []
    >>> length = memoized_by_identity(2)(lambda items: calls.append(items) or len(items))
    >>> items, equal = [1], [1]
    >>> length(items), length(items), length(equal), len(calls)
    (1, 1, 1, 2)
    """

    def memoize(function: Callable[_P, _R]) -> Callable[_P, _R]:
        compute: Callable[..., _R] = function
        # the arguments are kept alive, so no other object gets an `id` that is in a key
        known: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], _R]] = OrderedDict()

        @wraps(function)
        def memoized(*arguments: _P.args, **_: _P.kwargs) -> _R:
            key = tuple(map(id, arguments))
            try:
                known.move_to_end(key)
                return known[key][1]
            except KeyError:  # it is not known, or another thread has just removed it
                pass
            result = compute(*arguments)
            known[key] = arguments, result
            if len(known) > size:
                known.popitem(last=False)
            return result

        return memoized

    return memoize
