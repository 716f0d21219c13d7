"""As-of join: pairs each row of A with the row of B that has the same key and the nearest earlier (or later) time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.core.run import key_hash
from operators.joins.partner_changes import Lifespans, PartnerChanges
from operators.kernels.phases import cancel_within_instants
from operators.kernels.points import LEAST, points_of
from operators.state.copies import first_equal
from operators.state.point_versions import KEY, PointVersions
from operators.state.range_trace import POINT, Questions, RangeTrace
from operators.state.trace import Trace

Comparison = Literal["greater", "greater_or_equal", "less", "less_or_equal"]
_AT = "__at"
#: Rows of A with instant, weight and order, and for each the index of its partner in a frame, -1 for none.
_Piece = tuple[pl.DataFrame, np.ndarray]


@dataclass(frozen=True, slots=True)
class AsofJoin:
    """asof(A, B) at τ = each row a of A at τ with the row b of B at τ that has the same key and the nearest time for
    which `a.time comparison b.time` is TRUE. A row without such a partner is dropped or, if `outer`, padded with NULLs.

    At any instant B has at most one row of a key and time. Input and output are changes: elements without an end. NULL
    keys and times have no partner. A change of b reads only the rows of A between b and its neighbour, so a step costs
    O((|Δ| log |Δ| + effect) log |state|). An output element has the order of the change of a or b that causes it, the
    greater one if both begin at the same instant. State: both sides by key and time. `bound` is a key column of A, of
    integers or times: the planner promises that rows with `bound ≤ frontier` no longer enter or leave either side. Such
    rows are dropped from the state.

    >>> join = AsofJoin(("k",), ("l",), "t", "u")
    >>> trades = Delta.of([("+", {"k": "x", "t": 5}, 5), ("+", {"k": "x", "t": 9}, 9)])
    >>> quotes = Delta.of([("+", {"l": "x", "u": 4}, 4), ("+", {"l": "x", "u": 5}, 7)])
    >>> pairs = join.step(trades, quotes, join.traces(), Move(0, 10)).delta.frame
    >>> pairs.select("t", "u", FROM, WEIGHT).sort(FROM, WEIGHT).rows()
    [(5, 4, 5, 1), (5, 4, 7, -1), (5, 5, 7, 1), (9, 5, 9, 1)]
    """

    operator_version: ClassVar[int] = 1
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    left_time: str
    right_time: str
    comparison: Comparison = "greater_or_equal"
    outer: bool = False
    bound: str | None = None

    def traces(self) -> tuple[Trace, ...]:
        """The left and the right rows."""
        other = None if self.bound is None else self.right_keys[self.left_keys.index(self.bound)]
        left = RangeTrace("key", self.left_keys, bound=self.bound, column=self.left_time)
        return left, RangeTrace("key", self.right_keys, bound=other, column=self.right_time)

    def step(self, left: Delta, right: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of pairs at the instants of the move."""
        if not len(left) and not len(right):
            none = left.frame.drop(RESERVED).hstack(right.frame.drop(RESERVED))
            return Step(Delta(none.hstack(left.frame.select(RESERVED))), traces)
        held_left, held_right = cast(tuple[RangeTrace, RangeTrace], traces)
        alone, lefts, rights = self._changes_by_point(left.consolidate().frame, right.consolidate().frame)
        versions = PointVersions.of(rights, held_right, move.start)
        partner_changes = PartnerChanges.of(versions, self.right_keys)
        lifespans = Lifespans.of(partner_changes.near(held_left), lefts, left.columns, versions.states)
        pieces, partners = self._pieces(lefts, partner_changes, lifespans, versions)
        pieces += [(alone, np.full(alone.height, -1))] if self.outer else []
        changes = self._side_by_side(pieces, left.columns, partners.select(right.columns))
        kept = held_left.append(Delta(lefts.drop(KEY)), move.end), versions.kept(move.end)
        return Step(Delta(cancel_within_instants(Delta(changes))), kept)

    def _changes_by_point(
        self, left: pl.DataFrame, right: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Returns the changes of A that cannot have a partner, then those of A and of B that may, with HASH, POINT (the
        time as an integer) and KEY. Points are chosen so that the partner is always the row of B with the greatest
        point ≤ that of A."""
        mirrored, strict = self.comparison in ("less", "less_or_equal"), self.comparison in ("greater", "less")
        reach = _with_points(left, self.left_keys, self.left_time, mirrored=mirrored)
        if strict:  # p < q is p ≤ q - 1, and nothing is below the least point
            reach = reach.filter(pl.col(POINT) > LEAST).with_columns(pl.col(POINT) - 1)
        rights = _with_points(right, self.right_keys, self.right_time, mirrored=mirrored)
        both = [_keys_of(rights, self.right_keys), _keys_of(reach, self.left_keys)]
        numbers = first_equal(pl.concat(both), both[0].columns).alias(KEY)
        alone = left[np.setdiff1d(np.arange(left.height), reach[_AT].to_numpy())]
        lefts = reach.drop(_AT).with_columns(numbers[rights.height :]).sort(KEY, POINT)
        return alone, lefts, rights.drop(_AT).with_columns(numbers[: rights.height])

    def _pieces(
        self, lefts: pl.DataFrame, partner_changes: PartnerChanges, lifespans: Lifespans, versions: PointVersions
    ) -> tuple[list[_Piece], pl.DataFrame]:
        """Returns the changes of A with their partners, the negated rows of A with the partners that they lose, and
        these rows with the partners that they get; and the frame that holds the partners."""
        own_keys = lefts[KEY].to_numpy()
        states = versions.states.at(own_keys, lefts[FROM].to_numpy())
        questions = (
            Questions.of(lefts, self.left_keys, lefts[POINT].to_numpy())
            + partner_changes.questions
            + partner_changes.questions
        )
        keys = np.concatenate([own_keys, partner_changes.key, partner_changes.key])
        places, partners = versions.nearest(
            questions, keys, np.concatenate([states, partner_changes.state - 1, partner_changes.state])
        )
        own, before, after = np.split(places, [len(states), len(states) + len(partner_changes.key)])
        orders = np.maximum(lefts[ORDER].to_numpy(), versions.orders_of_new(own, lefts[FROM].to_numpy()))
        change, row = lifespans.concerned(partner_changes)
        rows = lifespans.rows[row].with_columns(
            pl.Series(FROM, partner_changes.instant[change], pl.Int64),
            pl.Series(ORDER, partner_changes.order[change], pl.Int64),
        )
        pieces = [(lefts.with_columns(pl.Series(ORDER, orders, pl.Int64)), own)]
        return [*pieces, (rows.with_columns(-pl.col(WEIGHT)), before[change]), (rows, after[change])], partners

    def _side_by_side(self, pieces: Sequence[_Piece], row: Sequence[str], partners: pl.DataFrame) -> pl.DataFrame:
        """The pairs as elements; rows without a partner are padded with NULLs or dropped."""
        rows = pl.concat([frame.select(*row, FROM, WEIGHT, ORDER) for frame, _ in pieces])
        places = np.concatenate([places for _, places in pieces])
        if not self.outer:
            rows, places = rows.filter(pl.Series(places >= 0)), places[places >= 0]
        partner_columns = partners.select(pl.all().gather(pl.Series(places, dtype=pl.Int64).replace(-1, None)))
        ends = pl.repeat(FOREVER, rows.height, dtype=pl.Int64, eager=True).alias(TO)
        return pl.DataFrame([*rows.select(row), *partner_columns, rows[FROM], ends, rows[WEIGHT], rows[ORDER]])


def _with_points(frame: pl.DataFrame, keys: Sequence[str], time: str, *, mirrored: bool) -> pl.DataFrame:
    """The rows without NULLs in keys and time, with HASH, POINT and their index. Mirrored points descend with time."""
    known = frame.with_row_index(_AT).drop_nulls([*keys, time])
    points = points_of(known[time])
    return known.with_columns(key_hash(known, keys), pl.Series(POINT, ~points if mirrored else points, pl.Int64))


def _keys_of(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The key columns, named by position so that both sides have the same names; a constant if there are none."""
    constant = pl.repeat(0, frame.height, dtype=pl.Int8, eager=True).alias("none")
    return pl.DataFrame([frame[key].alias(str(at)) for at, key in enumerate(keys)] or [constant])
