"""The expected answers, by DuckDB over the rows of all streams up to an instant, and the comparison of two answers."""

import duckdb
import polars as pl
import polars.selectors as cs

from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.questions import Question
from benchmarks.nexmark.streams import STREAMS, Stream
from operators.core.errors import InternalError

_RELATIVE = 1e-9


class Reference:
    """DuckDB's answers over some events.

    >>> from benchmarks.nexmark.questions import QUESTIONS
    >>> Reference(Events(1_000)).answer(QUESTIONS["q2"]).columns
    ['auction', 'price']
    """

    def __init__(self, events: Events) -> None:
        self._rows = {name: stream.rows(events) for name, stream in STREAMS.items()}
        self._last: tuple[str, pl.DataFrame] | None = None

    def height(self, stream: Stream) -> int:
        """The number of rows of a stream."""
        return self._rows[stream.name].height

    def answer(self, question: Question, at: int | None = None) -> pl.DataFrame:
        """The answer of a query at an instant, by default at the end. Caches the last answer at the end."""
        if at is not None:
            return self._asked(question, at)
        if self._last is None or self._last[0] != question.name:
            self._last = question.name, self._asked(question, None)
        return self._last[1]

    def _asked(self, question: Question, at: int | None) -> pl.DataFrame:
        with duckdb.connect() as database:
            for name, rows in self._rows.items():
                upto = rows if at is None else rows.filter(pl.col("dateTime").dt.epoch("ms") <= at)
                database.register(name, upto.to_arrow())
            return pl.DataFrame(pl.from_arrow(database.sql(question.duckdb).to_arrow_table()))


def verify(answer: pl.DataFrame, wanted: pl.DataFrame, name: str) -> None:
    """Raises InternalError, with some differing rows, unless both have the same rows equally often (floats to a
    billionth).

    >>> verify(pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [2, 1]}), "q")
    """
    if set(answer.columns) != set(wanted.columns):
        raise InternalError(f'"{name}" has columns {answer.columns}, not {wanted.columns}')
    ours, theirs = _comparable(answer.select(wanted.columns)), _comparable(wanted)
    if answer.height != wanted.height or not _close(ours, theirs):
        raise InternalError(f'"{name}" is wrong: {_differences(ours, theirs)}')


def _comparable(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all integers as Int64, decimals as floats and instants in microseconds, sorted, by floats last."""
    frame = frame.cast({
        cs.decimal() | cs.float(): pl.Float64, cs.integer(): pl.Int64, cs.datetime(): pl.Datetime("us"),
    })  # fmt: skip
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    return frame.sort([*(name for name in frame.columns if name not in floats), *floats], nulls_last=True)


def _close(frame: pl.DataFrame, other: pl.DataFrame) -> bool:
    return all(_close_column(frame[name], other[name]) for name in frame.columns)


def _close_column(column: pl.Series, other: pl.Series) -> bool:
    if not other.dtype.is_float():
        return column.equals(other)
    near = ((column - other).abs() <= _RELATIVE * other.abs()) | (column.is_null() & other.is_null())
    return bool(near.fill_null(value=False).all())


def _differences(ours: pl.DataFrame, theirs: pl.DataFrame) -> str:
    plain = [name for name, dtype in theirs.schema.items() if not dtype.is_float()]
    counted = [frame.group_by(plain).len() for frame in (ours, theirs)]
    keys = [*plain, "len"]
    surplus, missing = (
        frame.join(other, on=keys, how="anti", nulls_equal=True).head(3).to_dicts()
        for frame, other in (counted, counted[::-1])
    )
    return f"{ours.height} rows, not {theirs.height}; surplus {surplus}; missing {missing}"
