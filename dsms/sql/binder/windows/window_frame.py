"""Reads the frames of OVER: the rows around the current one that a window function reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from operators.expressions import Interval, Literal
from operators.ranking.window_call import FrameEnd

_DAY = 86_400_000_000


@dataclass(frozen=True)
class Frame:
    """The bounds of a frame, as in WindowCall."""

    kind: Choice["rows", "range"] = "range"
    start: FrameEnd = None
    end: FrameEnd = 0


def counts_groups(spec: exp.Expr | None) -> bool:
    """Whether a frame is in GROUPS: its distances count different values of ORDER BY."""
    return spec is not None and str(spec.args.get("kind")).upper() == "GROUPS"


def frame_of(spec: exp.Expr | None, order: list[pa.DataType], scope: Scope) -> Frame:
    """The frame of a parsed specification; the default is from the first row to the last peer of the current row. A
    frame in GROUPS is one of RANGE over the numbers of the groups. Raises SqlError."""
    if spec is None:
        return Frame()
    kind = str(spec.args.get("kind") or "ROWS").lower()
    if kind not in ("rows", "range", "groups"):
        raise not_supported(spec, kind.upper(), "ROWS, RANGE or GROUPS")
    if (exclude := spec.args.get("exclude")) is not None and exclude.name.upper() != "NO OTHERS":
        raise not_supported(
            spec, f"EXCLUDE {exclude.name}", "compute the value without EXCLUDE, and subtract that of the current row"
        )
    start = _end(spec, "start", order, scope, kind)
    end = _end(spec, "end", order, scope, kind) if spec.args.get("end") else 0
    return Frame("rows" if kind == "rows" else "range", start, end)


def _end(spec: exp.Expr, which: str, order: list[pa.DataType], scope: Scope, kind: str) -> FrameEnd:
    value, side = spec.args[which], str(spec.args.get(f"{which}_side") or "").upper()
    if isinstance(value, str):
        outward = "PRECEDING" if which == "start" else "FOLLOWING"
        if value.upper() == "UNBOUNDED" and side != outward:
            raise error_at(spec, f"the {which} of a frame cannot be UNBOUNDED {side}")
        return None if value.upper() == "UNBOUNDED" else 0
    distance = _distance(value, order, scope, kind)
    return -distance if side == "PRECEDING" else distance


def _distance(node: exp.Expr, order: list[pa.DataType], scope: Scope, kind: str) -> int | float:
    bound = bind_expression(node, scope)
    value = bound.value if isinstance(bound, Literal) else None
    if kind == "range" and len(order) != 1:
        raise error_at(node, "RANGE with a distance needs exactly one ORDER BY expression")
    if isinstance(value, Interval) and kind == "range" and not value.months:
        length = value.days * _DAY + value.microseconds
        return length // _DAY if pa.types.is_date(order[0]) else length
    if isinstance(value, int | float) or (value is not None and str(bound.type).startswith("decimal")):
        number = float(str(value)) if not isinstance(value, int) else value
        if number < 0 or (kind != "range" and not isinstance(value, int)):
            raise error_at(node, "the bound of a frame must not be negative, and must be whole with ROWS and GROUPS")
        return number
    raise error_at(node, "the bound of a frame must be a constant number or an interval without months")
