"""Intake: turns the records of a log partition into elements of a source, and refused records into dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException

from connectors.formats import Decoded, Refusal
from dsms.model.objects import Source
from dsms.runtime.stages.absent_columns import AbsentKeyColumns, merged_orders
from dsms.runtime.stages.ahead import ARRIVED, ahead_fault, surely_near
from dsms.runtime.stages.arrival_order import check_order, order_marks
from operators.core.calendar_range import FIRST_US, LAST_US
from operators.core.clock import Heartbeat, PartitionClock
from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, ORDER_SHIFT, TO, WEIGHT, Delta, union_all
from operators.core.errors import ExternalError

DELETE = "-"
#: The beginning of the reason of a late record's dead letter.
LATE = "late: "
_OPS = ("+", "u", "-")
_OP = "__op"
_NO_END = pl.Series(TO, [FOREVER], dtype=pl.Int64)
#: These replace an instant from outside the value if it is not a number, or if it is too large.
NO_NUMBER, OUT_OF_RANGE = FOREVER, FOREVER - 1
_NO_WHOLE_NUMBER = "invalid instant: not a whole number"
#: The most characters of an invalid instant that a dead letter shows.
_LONGEST_GIVEN = 80
#: The most characters of an unexpected error that a dead letter shows.
_LONGEST_REASON = 1000


@dataclass(frozen=True)
class Arrivals:
    """Consecutive records of one partition, in log order.

    `instants` and `ops` are the instants and operations from outside the value: from a header, the record's timestamp
    or the caller. `keys` are the record keys. If a record's value is None, the record is a deletion, and its key is
    decoded.
    """

    partition: int
    offsets: np.ndarray
    values: Sequence[Any]
    instants: pl.Series
    ops: Sequence[str | None] | None = None
    keys: Sequence[object] | None = None
    heartbeats: tuple[Heartbeat, ...] = ()
    #: The records' own timestamps, which bound their instants; None: instants are not bounded.
    arrived: np.ndarray | None = None
    #: Records that are refused whatever their content: offset, reason and value.
    refused: tuple[tuple[int, str, object], ...] = ()
    #: The reasons why instants are NO_NUMBER, by offset.
    no_instants: Mapping[int, str] = field(default_factory=dict)

    def halves(self) -> tuple[Arrivals, Arrivals]:
        """The first half of the records, with the heartbeats up to the last of them, and the second half."""
        middle = len(self.offsets) // 2
        last = int(self.offsets[middle - 1])
        before = tuple(beat for beat in self.heartbeats if beat.offset <= last)
        after = tuple(beat for beat in self.heartbeats if beat.offset > last)
        first, second = self._part(slice(middle), before), self._part(slice(middle, None), after)
        return (
            replace(first, refused=tuple(each for each in self.refused if each[0] <= last)),
            replace(second, refused=tuple(each for each in self.refused if each[0] > last)),
        )

    def only_heartbeats(self) -> Arrivals:
        """The heartbeats and the records in `refused`, without the other records."""
        return self._part(slice(0), self.heartbeats)

    def _part(self, cut: slice, heartbeats: tuple[Heartbeat, ...]) -> Arrivals:
        return replace(
            self,
            offsets=self.offsets[cut],
            values=self.values[cut],
            instants=self.instants[cut],
            ops=None if self.ops is None else self.ops[cut],
            keys=None if self.keys is None else self.keys[cut],
            heartbeats=heartbeats,
            arrived=None if self.arrived is None else self.arrived[cut],
        )


@dataclass(frozen=True, slots=True)
class RefusedArrival:
    """A refused record: its partition and offset, the reason, and its original value."""

    partition: int
    offset: int
    reason: str
    value: object
    #: The query that refused the record; None if the source refused it.
    query: str | None = None


@dataclass(frozen=True)
class Admitted:
    """The elements of the accepted records, the dead letters of the others, the partition's clock after all of them,
    and the marks of a source with ordered columns."""

    delta: Delta
    dead: tuple[RefusedArrival, ...]
    clock: PartitionClock
    marks: Delta | None = None
    #: The orders of deletions by record key, by the columns that the key lacks.
    absent: AbsentKeyColumns = field(default_factory=dict)

    def instants_advanced(self, clock: PartitionClock) -> int:
        """The number of instants by which the elements have advanced the greatest instant of the partition; `clock` is
        the partition's clock before them. If the partition had no records before, it is counted from the least instant
        of the elements."""
        if not len(self.delta):
            return 0
        before = clock.high if clock.high > BEGINNING else cast(int, self.delta.frame[FROM].min())
        return max(self.clock.high - before, 0)


def in_sequence(parts: Sequence[Admitted]) -> Admitted:
    """Combines what was admitted from consecutive pieces of a log."""
    marks = [part.marks for part in parts if part.marks is not None]
    return Admitted(
        union_all([part.delta for part in parts]),
        tuple(letter for part in parts for letter in part.dead),
        parts[-1].clock,
        union_all(marks) if marks else None,
        merged_orders(part.absent for part in parts),
    )


Decode = Callable[[Sequence[Any]], Decoded]


@dataclass(frozen=True)
class Intake:
    """Admits the records of one source. `decode` is for upserts, `decode_keys` for deletions, which need only the
    columns of the key."""

    source: Source
    decode: Decode
    decode_keys: Decode
    #: Returns the names of the fields that the key of a deletion has; None if the decoder cannot list them.
    key_names: Callable[[Any], frozenset[str]] | None = None

    def admit(self, arrivals: Arrivals, clock: PartitionClock) -> Admitted:
        """Admits or refuses records; `clock` is the partition's clock before them.

        The law: whether a record is accepted depends only on its partition's log up to it. If a defect of a decoder
        shows on a record, only that record is refused; it is found by binary search.
        """
        admitted = self._attempt(arrivals, clock)
        if isinstance(admitted, Admitted):
            return admitted
        if len(arrivals.offsets) > 1:
            first, second = arrivals.halves()
            before = self.admit(first, clock)
            return in_sequence([before, self.admit(second, before.clock)])
        again = self._attempt(arrivals, clock)  # a transient failure, such as a lack of threads, is not a defect
        if isinstance(again, Admitted):
            return again
        dead_letter = _dead_letter(arrivals, int(arrivals.offsets[0]), again)
        others = self._admitted(arrivals.only_heartbeats(), clock)
        return replace(others, dead=tuple(sorted((*others.dead, dead_letter), key=lambda each: each.offset)))

    def _attempt(self, arrivals: Arrivals, clock: PartitionClock) -> Admitted | str:
        """The admitted records, or the text of a defect of the decoder that some record has triggered."""
        try:
            return self._admitted(arrivals, clock)
        except (ExternalError, OSError, MemoryError):
            raise
        except (Exception, PanicException) as error:
            if not len(arrivals.offsets):
                raise
            reason = f"the decoder failed on this record because of a defect: {type(error).__name__}: {error}"
            return reason[:_LONGEST_REASON].encode(errors="replace").decode()

    def _admitted(self, arrivals: Arrivals, clock: PartitionClock) -> Admitted:
        dead = [RefusedArrival(arrivals.partition, *refused) for refused in arrivals.refused]
        frame = self._rows(arrivals, dead)
        checked = check_order(self.source, frame, clock.orders) if self.source.ordered else None
        if checked is not None:
            dead += [_dead_letter(arrivals, offset, reason) for offset, reason in checked.reasons]
            frame = frame.filter(pl.Series(checked.keeps))
        instants = frame[FROM].to_numpy()
        offsets = frame[ORDER].to_numpy()
        if self.source.latent:
            instants = clock.latent(instants, offsets, arrivals.heartbeats)
            frame = frame.with_columns(pl.Series(FROM, instants))
        if self.source.arrival is not None:
            instants = np.clip(instants, *self._range)  # a heartbeat may have moved the partition beyond the range
            frame = frame.with_columns(pl.Series(FROM, instants))
            frame = frame.with_columns(_moments(frame[FROM], self.source.schema.field(self.source.arrival)))
        late, after = clock.admit(instants, offsets, slack=self.source.slack, heartbeats=arrivals.heartbeats)
        if late.any():
            dead += [
                self._late(arrivals, int(offset), int(ts))
                for offset, ts in zip(offsets[late], instants[late], strict=True)
            ]
            frame = frame.filter(~pl.Series(late))
        order = frame[ORDER] + (arrivals.partition << ORDER_SHIFT)
        elements = frame.with_columns(order, _NO_END.new_from_index(0, frame.height))
        marks = None
        if checked is not None:
            least = checked.least.filter(pl.Series(checked.keeps)).filter(~pl.Series(late))
            marks, after = order_marks(least, elements, clock.high), replace(after, orders=checked.orders)
        return Admitted(
            Delta(elements[[*self.source.schema.names, FROM, TO, WEIGHT, ORDER]]),
            tuple(sorted(dead, key=lambda letter: letter.offset)),
            after,
            marks,
            self._absent(arrivals, frame),
        )

    def _absent(self, arrivals: Arrivals, frame: pl.DataFrame) -> AbsentKeyColumns:
        """The accepted deletions by record key, by the columns that the key lacks."""
        if arrivals.keys is None or self.key_names is None:
            return {}
        columns = {name.casefold(): name for name in self.source.schema.names}
        absent: dict[frozenset[str], list[int]] = {}
        for offset in frame.filter(pl.col(WEIGHT) < 0)[ORDER].to_list():
            index = int(np.searchsorted(arrivals.offsets, offset))
            if arrivals.values[index] is None:
                names = self.key_names(arrivals.keys[index])
                lacking = frozenset(name for folded, name in columns.items() if folded not in names)
                absent.setdefault(lacking, []).append(offset + (arrivals.partition << ORDER_SHIFT))
        return {lacking: tuple(orders) for lacking, orders in absent.items()}

    def _rows(self, arrivals: Arrivals, dead: list[RefusedArrival]) -> pl.DataFrame:
        """The decodable records as rows with `__from`, `__weight` and the offset as `__order`, in log order."""
        deletions = _deletions(arrivals)
        if not deletions.any():
            rows = self._decoded(arrivals, None, self.decode, arrivals.values, 1, dead)
        else:
            upserts, removed = np.flatnonzero(~deletions), np.flatnonzero(deletions)
            bodies = [_body(arrivals, int(index)) for index in removed]
            dead += [_empty(arrivals, int(at)) for at, body in zip(removed, bodies, strict=True) if body is None]
            removed = removed[[body is not None for body in bodies]]
            bodies = [body for body in bodies if body is not None]
            upsert_values = [arrivals.values[int(index)] for index in upserts]
            rows = pl.concat(
                [
                    self._decoded(arrivals, upserts, self.decode, upsert_values, 1, dead),
                    self._decoded(arrivals, removed, self.decode_keys, bodies, -1, dead),
                ]
            ).sort(ORDER)
        return self._checked(arrivals, rows, dead)

    def _decoded(
        self,
        arrivals: Arrivals,
        at: np.ndarray | None,
        decode: Decode,
        values: Sequence[Any],
        weight: int,
        dead: list[RefusedArrival],
    ) -> pl.DataFrame:
        decoded = decode(values)
        kept = decoded.kept if at is None else at if decoded.kept is None else at[decoded.kept]
        offsets = arrivals.offsets if kept is None else arrivals.offsets[kept]
        instants = arrivals.instants if kept is None else arrivals.instants[kept]
        dead += [_refused(arrivals, refusal, at) for refusal in decoded.refused]
        columns = [
            instants.alias(FROM),
            pl.Series(ORDER, offsets, pl.Int64),
            pl.Series(WEIGHT, np.full(decoded.frame.height, weight, np.int64)),
        ]
        return decoded.frame.with_columns(columns)

    def _checked(self, arrivals: Arrivals, rows: pl.DataFrame, dead: list[RefusedArrival]) -> pl.DataFrame:
        """The rows whose instants and operations are valid, after reading these from columns if they are in columns."""
        if self.source.timestamp is not None:
            rows = rows.with_columns(_instant(rows[self.source.timestamp]).alias(FROM))
        if self._surely_valid(arrivals, rows):
            return rows
        reasons = _instant_fault(self.source.timestamp, self._range)
        if arrivals.arrived is not None and self.source.ahead_ms is not None:
            at = np.searchsorted(arrivals.offsets, rows[ORDER].to_numpy())
            rows = rows.with_columns(pl.Series(ARRIVED, arrivals.arrived[at], pl.Int64))
            whole = self.source.timestamp is None or not rows[self.source.timestamp].dtype.is_temporal()
            reasons = pl.coalesce(reasons, ahead_fault(self.source.ahead_ms, whole=whole))
        if self.source.tagged not in ("header", "none"):
            op = pl.col(self.source.tagged)
            reasons = pl.coalesce(reasons, _op_fault(op, self.source.tagged), self._missing(op))
            rows = rows.with_columns(pl.when(op == DELETE).then(-1).otherwise(1).cast(pl.Int64).alias(WEIGHT))
        if arrivals.ops is not None:
            at = np.searchsorted(arrivals.offsets, rows[ORDER].to_numpy())
            rows = rows.with_columns(pl.Series(_OP, list(arrivals.ops), pl.String).gather(at))
            op = pl.col(_OP)
            reasons = pl.coalesce(reasons, pl.when(op.is_not_null()).then(_op_fault(op, "op")))
        faults = rows.select(reasons.alias("reason")).to_series()
        if faults.null_count() == len(faults):
            return rows
        bad = faults.is_not_null()
        dead += [
            _dead_letter(arrivals, int(offset), arrivals.no_instants[offset] if reason == _NO_WHOLE_NUMBER else reason)
            for offset, reason in zip(rows[ORDER].filter(bad), faults.filter(bad), strict=True)
        ]
        return rows.filter(~bad)

    def _surely_valid(self, arrivals: Arrivals, rows: pl.DataFrame) -> bool:
        """A quick test by the extreme instants and the distinct operations: True if all rows are valid; False if they
        have to be tested one by one."""
        if self.source.tagged not in ("header", "none") or rows[FROM].null_count():
            return False
        arrived, ahead = arrivals.arrived, self.source.ahead_ms
        if arrived is not None and ahead is not None and not surely_near(rows[FROM], arrived, ahead):
            return False
        return _in_range(rows[FROM], self._range) and set(arrivals.ops or ()) <= {None, *_OPS}

    @property
    def _range(self) -> tuple[int, int]:
        """The first and the last valid instant: those that fit the column of arrival times, if there is one."""
        if self.source.arrival is None or pa.types.is_integer(self.source.schema.field(self.source.arrival).type):
            return BEGINNING + 1, -BEGINNING - 1
        return -(-FIRST_US // 1_000), LAST_US // 1_000

    def _missing(self, op: pl.Expr) -> pl.Expr:
        """The fault of an upsert with NULL in a NOT NULL column. This is checked here if the operation is in a column,
        because all columns are then decoded as nullable."""
        required = [field.name for field in self.source.schema if not field.nullable]
        checks = [
            pl.when((op != DELETE) & pl.col(name).is_null()).then(
                pl.lit(f'column "{name}" is NULL but declared NOT NULL')
            )
            for name in required
        ]
        return pl.coalesce(pl.lit(None, pl.String), *checks)

    def _late(self, arrivals: Arrivals, offset: int, instant: int) -> RefusedArrival:
        return _dead_letter(
            arrivals, offset, f"{LATE}instant {instant} is below the frontier of its partition at this record"
        )


def reading_schema(source: Source, *, deletions: bool = False) -> pa.Schema:
    """The schema for decoding records: the declared columns, and those of the instant and the operation.

    All columns are nullable for deletions, and if the operation is in a column.
    """
    fields = {field.name: field for field in source.record if field.name != source.arrival}
    if source.tagged not in ("header", "none"):
        fields.setdefault(source.tagged, pa.field(source.tagged, pa.string()))
        deletions = True
    return pa.schema([field.with_nullable(True) if deletions else field for field in fields.values()])


def _deletions(arrivals: Arrivals) -> np.ndarray:
    count = len(arrivals.values)
    if arrivals.ops is None and arrivals.keys is None:
        return np.zeros(count, dtype=bool)
    ops = arrivals.ops or [None] * count
    return np.array([op == DELETE or value is None for op, value in zip(ops, arrivals.values, strict=True)], dtype=bool)


def _body(arrivals: Arrivals, index: int) -> object:
    value = arrivals.values[index]
    if value is None and arrivals.keys is not None:
        return arrivals.keys[index]
    return value


def _empty(arrivals: Arrivals, index: int) -> RefusedArrival:
    """The dead letter of a record without a value and without a readable key."""
    reason = "the record has no value and no readable key"
    return RefusedArrival(arrivals.partition, int(arrivals.offsets[index]), reason, b"")


def _refused(arrivals: Arrivals, refusal: Refusal, at: np.ndarray | None) -> RefusedArrival:
    index = refusal.index if at is None else int(at[refusal.index])
    return RefusedArrival(arrivals.partition, int(arrivals.offsets[index]), refusal.message, _body(arrivals, index))


def _dead_letter(arrivals: Arrivals, offset: int, reason: str) -> RefusedArrival:
    index = int(np.searchsorted(arrivals.offsets, offset))
    return RefusedArrival(arrivals.partition, offset, reason, _body(arrivals, index))


def _instant(column: pl.Series) -> pl.Series:
    """The instants of a timestamp column: integers unchanged, timestamps and dates as milliseconds since 1970."""
    if column.dtype.is_temporal():
        return column.cast(pl.Datetime("ms")).cast(pl.Int64)
    return column.cast(pl.Int64)


def _moments(instants: pl.Series, field: pa.Field[Any]) -> pl.Series:
    """Instants as a column of this type: for an integer column unchanged, otherwise as timestamps, from milliseconds
    since 1970."""
    moments = instants.alias(field.name)
    return moments if pa.types.is_integer(field.type) else (moments * 1_000).cast(pl.Datetime("us"))


def _in_range(instants: pl.Series, ends: tuple[int, int]) -> bool:
    if not len(instants):
        return True
    return ends[0] <= cast(int, instants.min()) and cast(int, instants.max()) <= ends[1]


def no_instant(place: str, given: str, kind: str = "") -> str:
    """The reason why the text `given`, found at `place`, is not an instant; with its type `kind`, if it has one.

    >>> no_instant('"ts"', "1.5", "float")
    'invalid instant: "ts" is 1.5 (float), not a whole number'
    """
    shown = given if len(given) <= _LONGEST_GIVEN else f"{given[:_LONGEST_GIVEN]}…"
    return f"invalid instant: {place} is {shown}{f' ({kind})' if kind else ''}, not a whole number"


def _instant_fault(column: str | None, ends: tuple[int, int]) -> pl.Expr:
    """The fault of an instant in a column or, if `column` is None, in the header."""
    name, outside = column or "ts", ~pl.col(FROM).is_between(*ends)
    return (
        pl.when(pl.col(FROM).is_null())
        .then(pl.lit(f'missing instant: "{name}" is NULL'))
        .when(pl.lit(column is None) & (pl.col(FROM) == NO_NUMBER))
        .then(pl.lit(_NO_WHOLE_NUMBER))
        .when(outside)
        .then(pl.lit(f'instant in "{name}" is out of range'))
    )


def _op_fault(op: pl.Expr, name: str) -> pl.Expr:
    choices = ", ".join(_OPS)
    return pl.when(op.is_null() | ~op.is_in(_OPS)).then(
        pl.lit(f'unknown operation in "{name}"; must be one of {choices}')
    )
