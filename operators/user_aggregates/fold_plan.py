"""Chooses how a user-defined aggregate runs over a stream, as in figure 2 of the ESL paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.tree import Column
from operators.user_aggregates.definition import (
    RETURN_TABLE,
    WINDOW_TABLE,
    Definition,
    Fold,
    Insert,
    LocalTable,
    Query,
    Scan,
    StatementLocation,
)

#: cumulative: rows only enter; tumble: each slot of SLIDE starts over; delta: rows enter and leave.
Mode = Literal["cumulative", "tumble", "delta"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The window that ends with a row: the last `length` rows, or those at most `length` instants older; None: all.

    `slide`: only the last row of each slot of that size has a result. `active`: rows that leave may also have one.
    """

    kind: Literal["rows", "range"]
    length: int | None
    slide: int | None = None
    active: bool = False

    def __str__(self) -> str:
        length = "unbounded" if self.length is None else str(self.length - (self.kind == "rows"))
        slide = "" if self.slide is None else f" slide {self.slide}"
        return f"{self.kind} {length} preceding{slide}{' active expiration' if self.active else ''}"


@dataclass(frozen=True, slots=True)
class FoldCall:
    """`name := definition(arguments)` in a mode; `ends`: TERMINATE runs after each row that has a result."""

    name: str
    definition: Definition
    arguments: tuple[str, ...]
    mode: Mode
    ends: bool

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self.definition.result


def chosen(
    name: str, base: Definition | None, window: Definition | None, arguments: tuple[str, ...], frame: Frame | None
) -> FoldCall:
    """The call over a frame (None: no window), with the base or the window definition, of which at least one must be
    given. Raises UserError if neither fits."""
    if frame is None or frame.length is None:
        definition = base or window
        assert definition is not None
        if frame is None and definition.blocking:
            raise UserError(
                f'aggregate "{definition.name}" returns at the end of its input, but a stream has no end',
                hint="give it a window: OVER (… PRECEDING), S [Range …] or S [Rows …], or read the relation R(S)",
            )
        return FoldCall(name, definition, arguments, "cumulative", definition.blocking)
    tumbles = frame.kind == "rows" and frame.length <= (frame.slide or 1)
    if tumbles:
        definition = base or window
        assert definition is not None
        return FoldCall(name, definition, arguments, "tumble", definition.blocking)
    if window is not None:
        return FoldCall(name, window, arguments, "delta", False)
    assert base is not None
    if base.inverse:
        return FoldCall(name, base, arguments, "delta", True)
    return FoldCall(name, over_window(base), arguments, "delta", True)


def over_window(base: Definition) -> Definition:
    """A window definition that runs the base definition over all rows of the window for each result."""
    columns = tuple((f"value_{at}", type_) for at, (_, type_) in enumerate(base.parameters))
    arguments = tuple(Column(f"r1:{name}", type_) for name, type_ in columns)
    fold = Fold("g2", base, arguments, base.result)
    query = Query((Scan(1, WINDOW_TABLE),), (Column("g2", base.result),), keys=(), folds=(fold,))
    text = f"INSERT INTO RETURN SELECT {base.name}(…) FROM inwindow"
    return Definition(
        base.name,
        base.parameters,
        base.result,
        (LocalTable(WINDOW_TABLE, columns),),
        terminate=(Insert(RETURN_TABLE, (query,), StatementLocation(1, text)),),
        expire=(),
        window=True,
        inwindow=tuple(name for name, _ in columns),
    )
