"""SPLIT_PART and REPLACE with constant arguments equal those with columns, and Python's split and replace."""

import polars as pl
import pyarrow as pa
import pytest

from operators.expressions import Column, Literal, call, evaluate

TEXTS = [None, "", "/", "a/b//c", "abc", "aaa", "é/é", "a$0b", "//x/", "1/2/3/4/5/6/7/8/9/"]
FRAME = pl.DataFrame({"s": TEXTS})
S = Column("s", pa.string())


def _text(value):
    return Literal(value, pa.string())


def _split(text, separator, index):
    if text is None or index == 0:
        return None
    parts = text.split(separator) if separator else list(text)
    at = index - 1 if index > 0 else index
    return parts[at] if -len(parts) <= at < len(parts) else ""


@pytest.mark.parametrize("separator", ["/", "a", "//", "é", "", "$0"])
@pytest.mark.parametrize("index", [1, 2, 3, 7, 8, 9, -1, -2, -9, 0, 2**40, -(2**40)])
def test_split_part(separator, index):
    wanted = [_split(text, separator, index) for text in TEXTS]
    fault = [text is not None and index == 0 for text in TEXTS]
    required = FRAME.filter(pl.col("s").is_not_null())
    for column, frame in ((S, FRAME), (Column("s", pa.string(), nullable=False), required)):
        values, faults = evaluate(
            frame, {"v": call("split_part", column, _text(separator), Literal(index, pa.int64()))}
        )
        assert values["v"].to_list() == wanted[-frame.height :]
        assert faults.is_not_null().to_list() == fault[-frame.height :]
    wide = FRAME.with_columns(pl.lit(separator).alias("by"), pl.lit(index, pl.Int64).alias("at"))
    by_columns = call("split_part", S, Column("by", pa.string()), Column("at", pa.int64()))
    assert evaluate(wide, {"v": by_columns})[0]["v"].to_list() == wanted


@pytest.mark.parametrize("old", ["a", "/", "aa", "", "é", "$0"])
@pytest.mark.parametrize("new", ["", "b", "$0", "${0}", "aa", "\\1"])
def test_replace(old, new):
    wanted = [None if text is None else text.replace(old, new) if old else text for text in TEXTS]
    values, faults = evaluate(FRAME, {"v": call("replace", S, _text(old), _text(new))})
    assert values["v"].to_list() == wanted
    assert faults.null_count() == len(TEXTS)


def test_null_and_constant_arguments():
    n = Literal(None, pa.string())
    for expression in (
        call("split_part", S, n, Literal(1, pa.int64())),
        call("replace", S, n, _text("x")),
        call("replace", S, _text("x"), n),
        call("split_part", n, _text("/"), Literal(2, pa.int64())),
    ):
        assert evaluate(FRAME, {"v": expression})[0]["v"].to_list() == [None] * len(TEXTS)
    alone = call("split_part", call("upper", _text("a/b")), _text("/"), Literal(2, pa.int64()))
    assert evaluate(FRAME, {"v": alone})[0]["v"].to_list() == ["B"] * len(TEXTS)
