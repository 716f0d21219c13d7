"""PickledByCopy: a base class for plans, which one thread may pickle while others read them."""

from __future__ import annotations


class PickledByCopy:
    """Pickles a copy of the object's attributes. Without the copy, pickling would fail when another thread reads a
    cached property for the first time, because that adds an attribute to `__dict__`.

    >>> import pickle
    >>> class Plan(PickledByCopy): pass
    >>> plan = Plan(); plan.name = "a"
    >>> pickle.loads(pickle.dumps(plan.__getstate__()))
    {'name': 'a'}
    """

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)
