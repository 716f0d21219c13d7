"""REPLAY DEAD LETTERS: which refused records are written to their topic again, and with what values."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.position import error_at
from dsms.model.statement_result import StatementResult
from dsms.model.types import type_sql
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.table_constraints import check_plain
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.table_elements import parse_expression
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, named
from operators.core.errors import UserError
from operators.expressions import Expression, cast, evaluate

#: The columns of a dead letter that WHERE and SET can read. `value` is NULL if the record is not UTF-8; `late` is TRUE
#: if the record was refused as late.
_COLUMNS: dict[str, pa.DataType] = {
    "partition": pa.int32(), "offset": pa.int64(), "reason": pa.string(), "value": pa.string(), "late": pa.bool_(),
}  # fmt: skip
DEAD_LETTER = pa.schema(list(_COLUMNS.items()))


@dataclass(frozen=True)
class Correction:
    """A bound statement: which dead letters are replayed, and with which new value."""

    value: Expression | None = None
    where: Expression | None = None

    def replayed(self, dead_letters: pl.DataFrame) -> tuple[list[tuple[int, str | None]], int]:
        """The numbers of the dead letters to replay, each with its new value (None: the record unchanged); and the
        number of late ones that are left out, because they would be late again. `dead_letters` has the columns of
        DEAD_LETTER.

        Raises UserError if SET gives NULL for a dead letter, or if WHERE or SET fails on one.

        >>> dead_letters = pl.DataFrame({"partition": [0, 0], "offset": [7, 9], "late": [False, True]})
        >>> Correction().replayed(dead_letters)
        ([(0, None)], 1)
        """
        chosen = dead_letters.with_row_index("number")
        if self.where is not None:
            chosen = chosen.filter(_values(dead_letters, self.where, "WHERE").fill_null(False))
        if self.value is not None:
            values = _values(chosen, self.value, "SET")
            _check_not_null(chosen, values)
            return list(zip(chosen["number"].to_list(), values.to_list(), strict=True)), 0
        not_late = chosen.filter(~pl.col("late"))
        return [(number, None) for number in not_late["number"].to_list()], chosen.height - not_late.height


def bound_correction(statement: st.Replay, catalog: Catalog) -> Correction:
    """Binds the expressions of the statement over DEAD_LETTER. Raises SqlError if one cannot be bound or has another
    type than needed."""
    value, where = (
        _bound(part, clause, kind, catalog)
        for part, clause, kind in (
            (statement.value, "SET value", pa.string()),
            (statement.where, "WHERE", pa.bool_()),
        )
    )
    return Correction(value, where)


def _bound(part: st.ParsedExpression | None, clause: str, kind: pa.DataType, catalog: Catalog) -> Expression | None:
    if part is None:
        return None
    check_plain(part.tree, catalog, clause)
    bound = bind_expression(part.tree, Scope(DEAD_LETTER))
    if bound.type == kind or pa.types.is_null(bound.type):
        return cast(bound, kind)
    raise error_at(part.tree, f"{clause} has type {type_sql(bound.type)}, but needs {type_sql(kind)}")


def _values(dead_letters: pl.DataFrame, expression: Expression, clause: str) -> pl.Series:
    values, faults = evaluate(dead_letters, {"it": expression})
    if faults.null_count() < dead_letters.height:
        number = int(faults.is_not_null().arg_max() or 0)
        raise UserError(
            f"{clause} at {_place(dead_letters, number)}: {faults[number]}", hint="exclude this dead letter with WHERE"
        )
    return values["it"]


def _check_not_null(dead_letters: pl.DataFrame, values: pl.Series) -> None:
    if values.null_count():
        number = int(values.is_null().arg_max() or 0)
        hint = "exclude this dead letter with WHERE; value is NULL if the record is not UTF-8"
        raise UserError(f"SET value is NULL at {_place(dead_letters, number)}", hint=hint)


def _place(dead_letters: pl.DataFrame, number: int) -> str:
    return f"partition {dead_letters['partition'][number]}, offset {dead_letters['offset'][number]}"


def _parse(cursor: Cursor, _: st.Name | None) -> st.Replay:
    name = cursor.object_name("source")
    value = where = None
    if cursor.accept("SET"):
        if not cursor.accept("VALUE"):
            cursor.fail("only the value of a record can be set", "SET value = replace(value, 'N/A', 'null')")
        cursor.expect("=")
        value = _expression(cursor, "WHERE")
    if cursor.accept("WHERE"):
        where = _expression(cursor)
    cursor.end()
    return st.Replay(name, value, where, cursor.sql)


def _expression(cursor: Cursor, *stops: str) -> st.ParsedExpression:
    cursor.peek()
    taken = []
    depth = 0
    while cursor.more() and not (depth == 0 and any(map(cursor.peeks, stops))):
        depth += cursor.peeks("(") - cursor.peeks(")")
        taken.append(cursor.next())
    return parse_expression(cursor, taken)


def _answer(statement: st.Replay, context: Context) -> StatementResult:
    return context.replay(statement)


KIND = StatementKind(
    statement=st.Replay,
    starts={("REPLAY", "DEAD", "LETTERS", "OF"): _parse},
    answer=_answer,
    writes_records=True,
    read_name=named,
    words=("SET", "WHERE"),
)
