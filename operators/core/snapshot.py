"""Snapshot: a base of plans that one thread pickles while others read them."""

from __future__ import annotations


class Snapshot:
    """Pickles a copy of the object's attributes. The first reader of a cached property adds an attribute, and pickling
    an object whose `__dict__` grows meanwhile would raise an error.

    >>> import pickle
    >>> class Plan(Snapshot): pass
    >>> plan = Plan(); plan.name = "a"
    >>> pickle.loads(pickle.dumps(plan.__getstate__()))
    {'name': 'a'}
    """

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)
