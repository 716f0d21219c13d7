"""A body that fails or never ends is stopped, with the name of the aggregate, the line, the statement and the row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dsms.sql.binder.aggregates.defined_aggregates import DefinitionText, definition_of
from operators.core.delta import Delta
from operators.core.errors import UserError
from operators.core.operator import Move
from operators.user_aggregates import generate
from operators.user_aggregates.columns import series
from operators.user_aggregates.fold_plan import chosen
from operators.user_aggregates.generate import BodyFailed
from operators.user_aggregates.stream_fold import StreamFold

HEAD = "CREATE AGGREGATE f(x BIGINT): BIGINT {\n  TABLE t(a BIGINT, s VARCHAR);\n  INITIALIZE: ITERATE: {\n"


def run(body: str, *values: int) -> list[object]:
    definition = definition_of(DefinitionText(HEAD + body + "\n}\n}"), None)
    call = chosen("v", definition, None, ("x",), None)
    fold = StreamFold((), (call,), None, pa.schema([("x", pa.int64())]))
    rows = Delta.of([("+", {"x": value}, at) for at, value in enumerate(values)])
    return fold.step(rows, fold.traces(), Move(0, 99)).delta.frame["v"].to_list()


def test_a_loop_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "MAX_STEPS", 1000)
    body = "INSERT INTO t VALUES (x, 'a');\nWHILE EXISTS (SELECT a FROM t) { UPDATE t SET a = a + 1; }"
    problem = 'aggregate "f" failed in line 5, ".*", at the row x = 41: its loops take too many steps'
    with pytest.raises(BodyFailed, match=problem):
        run(body, 41)


def test_doubling_text_fails_at_the_length_limit() -> None:
    body = "INSERT INTO t VALUES (x, 'ab') WHERE NOT EXISTS (SELECT a FROM t);\nUPDATE t SET s = s || s;"
    with pytest.raises(BodyFailed, match='line 5, "UPDATE t SET s = s .. s".* a text is longer than'):
        run(body, *range(40))


def test_a_number_outside_its_type() -> None:
    with pytest.raises(BodyFailed, match="at the row x = 9: 90000000000000000000 is outside the range of its type"):
        run("INSERT INTO RETURN VALUES (x * 1000000000000000000 * 10);", 9)


def test_division_by_zero_is_null() -> None:
    assert run("INSERT INTO RETURN VALUES (10 / x);", 5, 0) == [2, None]


def test_a_time_outside_the_calendar() -> None:
    for type_, beyond in ((pa.timestamp("us"), 253_402_300_800_000_000), (pa.date32(), 2_932_897)):
        assert series("x", [beyond - 1, None], type_).null_count() == 1
        with pytest.raises(UserError, match="outside the years 1 to 9999"):
            series("x", [beyond], type_)
