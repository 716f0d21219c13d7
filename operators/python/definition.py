"""What users wrote in Python: frozen data, which is part of the plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

#: The limits of a call where none are declared.
TIME_LIMIT_S: Final = 10.0
MEMORY_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one call over a batch may take, and how much memory its process may use beyond what it starts with."""

    seconds: float = TIME_LIMIT_S
    bytes: int = MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Package:
    """The source of a function: a module, or a zip archive of modules. `hash` stands for it in fingerprints.

    `requirements` are distributions that executors have to have, as `numpy>=1.26`. A function that a session was given
    has no source, but a name in `registered`.
    """

    hash: str
    requirements: tuple[str, ...] = ()
    source: bytes = field(default=b"", compare=False, repr=False)
    registered: bool = False


def package_of(source: bytes, requirements: tuple[str, ...] = ()) -> Package:
    """The package of a source.

    >>> package_of(b"def f(x): return x").hash
    'c4c1088ea5f77d514699'
    """
    return Package(hashlib.sha256(source).hexdigest()[:20], requirements, source)


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A scalar function: `name` of `handler` in `package` takes an Arrow array for each parameter and returns one of as
    many values.

    The law: the value of a row depends on its arguments alone. Equal definitions are equal plans: they share operators.
    """

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    handler: str
    package: Package
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class PythonClass:
    """The class of an aggregate: `name` of `handler` in `package`. An instance of it holds what is known of a group.

    `methods` are those of the protocol that the class has: `initialise` and `iterate` take the arguments of a row that
    comes, `expire` those of one that leaves, `terminate` returns the value; `iterate_arrays` and `expire_arrays` take
    an Arrow array for each parameter, for many rows at once. The law: what an instance returns depends on the rows
    that it was given alone, and its attributes are all of its state.
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
        """Whether the value is returned at the end, instead of something for each row."""
        return "terminate" in self.methods

    @property
    def inverse(self) -> bool:
        """Whether rows can leave."""
        return "expire" in self.methods
