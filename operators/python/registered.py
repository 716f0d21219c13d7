"""Functions and classes that were passed to sessions of this process as objects.

A statement cannot contain an object, so each one gets a name here, which the statement and the catalog contain instead.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from operators.core.errors import UserError

_objects: dict[str, Any] = {}
_numbers = count(1)


def register(found: Any) -> str:
    """Keeps an object for the life of the process, and returns the name that it gets.

    >>> registered(register(len)) is len
    True
    """
    name = f"{getattr(found, '__qualname__', type(found).__qualname__)}#{next(_numbers)}"
    _objects[name] = found
    return name


def registered(name: str) -> Any:
    """Returns the object to which `register` gave this name. Raises UserError if this process has no such object."""
    if name not in _objects:
        raise UserError(
            f'"{name}" was registered in a session of another process',
            hint="deploy the function, so that executors have its source",
        )
    return _objects[name]
