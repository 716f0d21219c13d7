"""Where the changes of a result are kept, each once: together with the position up to which they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from operators.core.errors import UserError

#: What a change says besides its row; no column of a result may be called so where it is kept.
OP, INSTANT = "dsms_op", "dsms_ts"


@dataclass(frozen=True)
class SinkResult:
    """A result to be kept: its name, the columns, and those of its key, if it has one."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if taken := [name for name in self.schema.names if name.lower() in (OP, INSTANT)]:
            raise UserError(f'a column of "{self.name}" is called "{taken[0]}"', hint="rename it in the query")


@dataclass(frozen=True)
class Batch:
    """Some changes of a result: the operation (+, u, -) and the instant of each, and the rows, of which a removal has
    the key alone."""

    ops: Sequence[str]
    instants: Sequence[int | None]
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.ops)

    def table(self) -> pa.Table:
        """The changes as a table.

        >>> Batch(["+"], [7], pa.table({"a": [1]})).table().to_pylist()
        [{'dsms_op': '+', 'dsms_ts': 7, 'a': 1}]
        """
        ops, instants = pa.array(self.ops, pa.string()), pa.array(self.instants, pa.int64())
        return self.rows.add_column(0, INSTANT, instants).add_column(0, OP, ops)

    def values(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        columns: list[list[Any]] = [column.to_pylist() for column in self.rows.columns]
        return list(zip(*columns, strict=True))


class Position(NamedTuple):
    """Up to where a result was taken, and when a sink was last there, in seconds since 1970."""

    token: str
    seen: float


class Sink(Protocol):
    """Keeps changes. What `take` has taken outlives a crash, with its token or not at all."""

    def position(self) -> Position | None:
        """Up to where changes were taken; None before the first."""
        ...

    def take(self, changes: Batch, token: str) -> None:
        """Takes changes; `token` is the position after them. Raises UserError, and takes nothing, where another one has
        taken some meanwhile."""
        ...

    def touch(self) -> None:
        """Notes that there was nothing to take until now."""
        ...

    def empty(self) -> None:
        """Forgets all that was taken."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...


def taken_by_another(what: str) -> UserError:
    """The error where two processes keep the same."""
    return UserError(f"another process has written to {what} meanwhile", hint="run one sink for each result and target")
