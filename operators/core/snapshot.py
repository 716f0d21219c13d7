"""Plans that one thread pickles while others read them."""

from __future__ import annotations


class Snapshot:
    """Pickled as it is at one moment. What a cached property holds is added to an object by whoever reads it first, and
    an object that grows while it is pickled would be an error.

    >>> import pickle
    >>> class Plan(Snapshot): pass
    >>> plan = Plan(); plan.name = "a"
    >>> pickle.loads(pickle.dumps(plan.__getstate__()))
    {'name': 'a'}
    """

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)
