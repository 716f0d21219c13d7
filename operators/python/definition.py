"""The definitions of functions and aggregates in Python: frozen data, which is part of the plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

#: The limits of a call if none are declared.
TIME_LIMIT_S: Final = 10.0
MEMORY_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one call over a batch may take, and how much memory its process may use beyond what it starts with."""

    seconds: float = TIME_LIMIT_S
    bytes: int = MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Package:
    """The source of a function: a module, or a zip archive of modules. `hash` represents it in fingerprints.

    `requirements` are distributions that executors must have, such as `numpy>=1.26`. If `registered` is set, the
    function was passed to a session as an object: it has no source, and `hash` is its name in `registered.py`.
    """

    hash: str
    requirements: tuple[str, ...] = ()
    source: bytes = field(default=b"", compare=False, repr=False)
    registered: bool = False


def package_of(source: bytes, requirements: tuple[str, ...] = ()) -> Package:
    """Returns the package of a source.

    >>> package_of(b"def f(x): return x").hash
    'c4c1088ea5f77d514699'
    """
    return Package(hashlib.sha256(source).hexdigest()[:20], requirements, source)


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A scalar function: `handler` in `package` takes an Arrow array for each parameter and returns one of the same
    length.

    The law: the value of a row depends only on its arguments. Operators with equal definitions are equal and are
    shared.
    """

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    handler: str
    package: Package
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class PythonClass:
    """The class of an aggregate: `handler` in `package`. An instance of the class holds the state of a group.

    `methods` are the methods of the protocol that the class has: `initialise` and `iterate` take the arguments of a row
    that enters, `expire` those of a row that leaves, `terminate` returns the value; `iterate_arrays` and
    `expire_arrays` take an Arrow array for each parameter, for many rows at once. The law: the values that an instance
    returns depend only on the rows that it was given, and its attributes are its whole state.
    """

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    handler: str
    package: Package
    methods: frozenset[str]
    limits: Limits = Limits()

    @property
    def ends(self) -> bool:
        """Whether one value is returned at the end, instead of values for each row."""
        return "terminate" in self.methods

    @property
    def inverse(self) -> bool:
        """Whether rows can leave."""
        return "expire" in self.methods
