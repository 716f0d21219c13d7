"""Objects by name, for what clients ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dsms.model.catalog import Catalog
from dsms.model.objects import Object
from operators.core.errors import UserError

#: A JSON object as the interface serves it.
Document = dict[str, Any]


class UnknownName(UserError):
    """No object has this name; the message lists those there are.

    >>> str(UnknownName("stream", "x", ["b", "a"]))
    'stream "x" not found; have: a, b'
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str] = ()) -> None:
        self._choices = tuple(choices)
        names = ", ".join(sorted(self._choices))
        super().__init__(f'{kind} "{name}" not found', hint=f"have: {names}" if names else "there is none yet")
        self.kind = kind
        self.name = name

    def among(self, may_read: Callable[[str], bool]) -> UnknownName:
        """The same error for somebody who may not see all names."""
        return UnknownName(self.kind, self.name, filter(may_read, self._choices))


def object_named(catalog: Catalog, name: str) -> Object:
    """The object of a name, or `UnknownName`."""
    match = catalog.get(name)
    if match is None:
        raise UnknownName("object", name, (item.name for item in catalog.objects.values()))
    return match
