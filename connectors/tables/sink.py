"""Where the changes of a result are kept, each once: together with the position up to which they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True)
class SinkResult:
    """A result to be kept: its name, the columns, and those of its key, if it has one."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...] = ()


class Sink(Protocol):
    """Keeps changes. What `take` has taken outlives a crash, with its token or not at all."""

    def token(self) -> str | None:
        """The position up to which changes were taken; None before the first."""
        ...

    def take(self, changes: pa.Table, token: str) -> None:
        """Takes changes: `op` (+, u, -), `ts`, and the columns of the result, of which a removal has the key alone.
        `token` is the position after them."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...


def ops_and_rows(changes: pa.Table, names: Sequence[str]) -> list[tuple[str, int | None, tuple[object, ...]]]:
    """The changes one by one: operation, instant, and the values of some columns.

    >>> ops_and_rows(pa.table({"op": ["+"], "ts": [7], "a": [1], "b": ["x"]}), ["b", "a"])
    [('+', 7, ('x', 1))]
    """
    columns: list[list[Any]] = [changes[name].to_pylist() for name in names]
    ops: list[Any] = changes["op"].to_pylist()
    return list(zip(ops, changes["ts"].to_pylist(), zip(*columns, strict=True), strict=True))
