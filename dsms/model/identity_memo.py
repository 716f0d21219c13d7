"""Memoization of pure functions by the identity of their immutable arguments.

Plans and catalogs are immutable, but they are slow to compare and, if they contain dicts, not hashable. Their identity
is a cheap key. For an equal but different object, the result is computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _IdentityKey:
    """A cache key that is equal only to a key of the same object. It keeps the object alive, so no other object can
    get its `id` while the key is in the cache."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and self.value is other.value


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
        @lru_cache(size)
        def cached(*keys: _IdentityKey) -> Any:
            call: Callable[..., _R] = function
            return call(*(key.value for key in keys))

        @wraps(function)
        def memoized(*arguments: _P.args, **_: _P.kwargs) -> _R:
            result: _R = cached(*map(_IdentityKey, arguments))
            return result

        return memoized

    return memoize
