"""Answers that user code writes itself: any of them is an error of the function, and nothing waits for ever."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pytest

from operators.core.errors import UserError
from operators.python import PythonClass, fold_events, package_of
from operators.python.sandbox import _UNREADABLE, _values, sandbox_of
from operators.user_aggregates.generate import COME
from tests.operators.python.test_confinement import called, function

SAY = """
import io, json, os, struct, time
import pyarrow as pa
def say(content):
    for end in range(3, 12):
        try:
            os.write(end, struct.pack("<q", len(content)) + content)
        except OSError:
            pass
def stream(array, **options):
    sink, batch = io.BytesIO(), pa.record_batch([array], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return b"\\0" + sink.getvalue()
def without_columns():
    sink, schema = io.BytesIO(), pa.schema([])
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([], schema=schema))
    return b"\\0" + sink.getvalue()
def f(n):
    {call}
    return ["late"]
{load}
"""
FORGED = {
    "b'\\0'": "returned an unreadable answer",
    "b'\\1' + b'[' * 200_000": "returned an unreadable answer: maximum recursion depth",
    "without_columns()": "unreadable answer: expected values of type",
    "stream(pa.array([b'x']))": "unreadable answer: expected values of type",
    "stream(pa.array(['x', 'y']))": "unreadable answer: expected 1 values, got 2",
    "stream(pa.array(['x' * 500]))[:-200]": "unreadable answer: Expected to be able to read",
    "stream(pa.array(['x' * 50_000_000]), compression='zstd')": "unreadable answer: its values are compressed",
}


@pytest.mark.parametrize("answer", FORGED)
def test_invalid_answer_is_an_error_of_the_function(answer: str) -> None:
    with pytest.raises(UserError, match=FORGED[answer]):
        called(SAY.format(call=f"say({answer})", load=""))


@pytest.mark.parametrize("answer", ["b'\\0no JSON'", "b'\\0005'", "b'\\0' + b'[' * 200_000"])
def test_an_answer_while_code_is_loaded_is_an_error_of_the_function(answer: str) -> None:
    with pytest.raises(UserError, match="returned an unreadable answer"):
        called(SAY.format(call="pass", load=f"say({answer})"))


def test_a_process_that_closes_its_output_is_not_waited_for() -> None:
    with pytest.raises(UserError, match="its process closed its output"):
        called("import os, time\ndef f(n):\n    os.closerange(0, 64)\n    time.sleep(1000)")


def test_a_signal_without_a_name_ends_a_process() -> None:
    with pytest.raises(UserError, match="its process ended: signal 40"):
        called("import os\ndef f(n): os.kill(os.getpid(), 40)")


def test_the_text_of_an_error_is_bounded() -> None:
    with pytest.raises(UserError, match=r"ValueError: x+ … \(1,000,000 characters\)") as told:
        called("def f(n): raise ValueError('x' * 1_000_000)")
    assert len(told.value.message) < 30_000


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), ["abc", None, "d" * 50]),
        (pa.list_(pa.struct([("a", pa.int64()), ("b", pa.decimal128(38, 2))])), [[{"a": 1, "b": None}], None, []]),
    ],
)
def test_changed_bytes_of_an_answer_are_an_error_or_values(type_: pa.DataType, values: list[object]) -> None:
    made, sink, choice = function("", type_), io.BytesIO(), random.Random(5)
    batch = pa.record_batch([pa.array(values, type_)], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert _values(made, sink.getvalue(), 3).to_pylist() == values
    for _ in range(1500):
        changed = bytearray(sink.getvalue())
        for at in choice.choices(range(len(changed) - 4), k=choice.randint(1, 3)):
            changed[at : at + 4] = choice.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\1\0\0\0"])
        try:
            assert _values(made, bytes(changed), 3).type == type_
        except _UNREADABLE:
            continue


@pytest.mark.parametrize(
    "answer",
    [
        "{'states': [], 'at': [], 'values': []}",
        "{'states': [None], 'at': [7], 'values': [1]}",
        "{'states': [None], 'at': [None], 'values': [1]}",
        "{'states': [None], 'at': [1, 1], 'values': [1, 1]}",
        "{'states': [None], 'at': [0, 1], 'values': [1]}",
    ],
)
def test_an_answer_of_an_aggregate_fits_its_events(answer: str) -> None:
    types = "dict(zip(['states', 'at', 'values'], map(pa.list_, [pa.large_binary(), pa.int64(), pa.int64()])))"
    text = SAY.format(call="pass", load="") + (
        f"class Forging:\n    def iterate(self, x):\n        type_ = pa.struct({types}.items())\n"
        f"        say(stream(pa.array([{answer}], type_)))\n"
    )
    made = PythonClass("g", (("x", pa.int64()),), pa.int64(), "Forging", package_of(text.encode()), frozenset())
    try:
        with pytest.raises(UserError, match='aggregate "g" failed: its process returned an invalid answer'):
            fold_events(made, np.array([2]), np.array([COME, COME]), [pa.array([1, 2])], [None])
    finally:
        sandbox_of(made).close()


@pytest.mark.parametrize("at", ["'x'", "99"])
def test_error_of_an_aggregate_names_an_existing_row(at: str) -> None:
    error = f"b'\\1' + json.dumps(dict(kind='K', message='m', traceback='t', at={at})).encode()"
    text = SAY.format(call="pass", load="") + f"class Forging:\n    def iterate(self, x):\n        say({error})\n"
    made = PythonClass("g", (("x", pa.int64()),), pa.int64(), "Forging", package_of(text.encode()), frozenset())
    try:
        with pytest.raises(UserError, match='aggregate "g" failed .*x = '):
            fold_events(made, np.array([2]), np.array([COME, COME]), [pa.array([1, 2])], [None])
    finally:
        sandbox_of(made).close()
