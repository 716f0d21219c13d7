"""Calls of Python functions in processes of their own: values, errors that name the row, limits."""

from __future__ import annotations

import base64
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from operators.core.errors import UserError
from operators.python import Limits, PythonFunction, call_function, package_of
from operators.python.sandbox import sandbox_of

QUICK = Limits(seconds=5.0, bytes=200 << 20)


def function(source: str | bytes, handler: str = "f", limits: Limits = QUICK, **more: object) -> PythonFunction:
    code = source.encode() if isinstance(source, str) else source
    package = package_of(code, tuple(more.get("requirements", ())))  # type: ignore[arg-type]
    parameters = (("n", pa.int64()), ("s", pa.string()))
    return PythonFunction("f", parameters, more.get("result", pa.int64()), handler, package, limits)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    yield
    sandbox_of.cache_clear()


def rows(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame({"a": list(numbers), "b": [str(n) for n in numbers]}, schema={"a": pl.Int64, "b": pl.String})


def called(made: PythonFunction, *numbers: int) -> list[object]:
    try:
        return call_function(made, rows(*numbers), len(numbers)).to_list()
    finally:
        sandbox_of(made).close()


def test_arrays_go_in_and_come_out() -> None:
    made = function("import pyarrow.compute as pc\ndef f(n, s): return pc.add(n, pc.utf8_length(s))")
    assert called(made, 5, 17, 400) == [6, 19, 403]


def test_returned_list_is_cast_to_the_declared_array_type() -> None:
    made = function("def f(n, s): return [None if v == 2 else v / 2 for v in n.to_pylist()]", result=pa.float64())
    assert called(made, 1, 2, 5) == [0.5, None, 2.5]


def test_printed_output_does_not_disturb_the_answer() -> None:
    assert called(function("def f(n, s):\n  print('x' * 100000)\n  return n"), 1, 2) == [1, 2]


def test_function_is_not_called_without_rows() -> None:
    assert called(function("def f(n, s): raise ValueError")) == []


def test_function_stays_loaded_between_calls() -> None:
    made = function("calls = []\ndef f(n, s):\n  calls.append(1)\n  return [len(calls)] * len(n)")
    try:
        assert [call_function(made, rows(1), 1).to_list() for _ in range(3)] == [[1], [2], [3]]
    finally:
        sandbox_of(made).close()


def test_an_archive_has_modules_that_import_each_other() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("shop/__init__.py", "")
        archive.writestr("shop/rates.py", "RATE = 3")
        archive.writestr(
            "shop/prices.py", "from shop.rates import RATE\ndef f(n, s): return [RATE * v.as_py() for v in n]"
        )
    assert called(function(packed.getvalue(), "shop.prices:f"), 2, 3) == [6, 9]


def test_an_error_names_the_first_row_and_shows_the_code() -> None:
    made = function("def f(n, s):\n  return [check(v.as_py()) for v in n]\ndef check(v):\n  return 10 // (v - 70)")
    with pytest.raises(UserError) as raised:
        called(made, *range(100))
    text = str(raised.value)
    assert "function \"f\" failed at the row n = 70, s = '70': ZeroDivisionError" in text
    assert 'File "<function>", line 4, in check' in text
    assert "return 10 // (v - 70)" in text
    assert "child.py" not in text


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def f(n, s): return n.slice(1)", "ValueError: it returned 0 values for 1 rows"),
        ("def f(n, s): return ['x'] * len(n)", "ArrowInvalid"),
        ("def f(n, s): return 7", "TypeError: 'int' object is not iterable"),
        ("def g(n, s): return n", "AttributeError"),
        ("def f(n, s: return n", "SyntaxError"),
        ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("import sys\ndef f(n, s): sys.exit(4)", "SystemExit: 4"),
        ("import os\ndef f(n, s): os._exit(3)", "its process ended: exit code 3"),
        ("import os\ndef f(n, s): os.kill(os.getpid(), 9)", "its process ended: SIGKILL"),
        ("def f(n, s): return [bytearray(1 << 30)]", "MemoryError"),
        ("def f(n, s):\n  with open('x', 'w') as file: file.write('y' * 10)\n  return n", "PermissionError"),
    ],
)
def test_failures_are_reported_with_the_reason(
    source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match='function "f" failed') as raised:
        called(function(source), 10, 20)
    assert why in str(raised.value)


def test_endless_function_is_stopped_and_the_next_call_works() -> None:
    made = function("def f(n, s):\n  while n[0].as_py() == 1: pass\n  return n", limits=Limits(seconds=1.0))
    try:
        with pytest.raises(
            UserError, match="in a batch of 2 rows that starts with n = 1, s = '1': it took longer than 1 s"
        ):
            call_function(made, rows(1, 2), 2)
        assert call_function(made, rows(3), 1).to_list() == [3]
    finally:
        sandbox_of(made).close()


def test_user_code_sees_neither_environment_nor_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMS_TOKEN", "secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    made = function(
        "import os, sys\ndef f(n, s): return [str('DSMS_TOKEN' in os.environ) + str('' in sys.path)] * len(n)",
        result=pa.string(),
    )
    assert called(made, 1) == ["FalseFalse"]


def test_unmet_requirement_is_reported() -> None:
    source = "def f(n, s): return n"
    assert called(function(source, requirements=("pyarrow>=1",)), 1) == [1]
    with pytest.raises(UserError, match='it requires "no-such-thing>=2", which is not installed'):
        called(function(source, requirements=("no-such-thing>=2",)), 1)
    with pytest.raises(UserError, match='it requires "pyarrow<1", but .* is installed'):
        called(function(source, requirements=("pyarrow<1",)), 1)


def test_function_process_ends_when_its_sandbox_is_closed() -> None:
    made = function("import os\ndef f(n, s): return [os.getpid()] * len(n)")
    (child,) = call_function(made, rows(1), 1).to_list()
    assert Path(f"/proc/{child}").exists()
    sandbox_of(made).close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_definition_is_named_by_its_source() -> None:
    first, second = function("def f(n, s): return n"), function("def f(n, s): return n ")
    assert first != second
    assert first == function(base64.b64decode(base64.b64encode(b"def f(n, s): return n")))


def test_a_time_outside_the_calendar_names_its_row() -> None:
    made = function("def f(n, s): return [v.as_py() * 10**17 for v in n]", result=pa.timestamp("us"))
    with pytest.raises(UserError, match="at the row n = 3, .* it returned a time outside the years 1 to 9999"):
        called(made, 1, 2, 3, 4)
