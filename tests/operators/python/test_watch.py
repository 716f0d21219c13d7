"""The process of a function is also killed for memory and threads that no limit of the kernel covers."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from operators.core.errors import UserError
from operators.python import Limits, call_function
from operators.python.sandbox import sandbox_of
from tests.operators.python.test_confinement import function

READ_ONLY = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
size = ctypes.c_size_t(32 << 20)
def f(n):
    for _ in range(24):
        at = ctypes.c_void_p(libc.mmap(None, size, 3, 0x22, -1, ctypes.c_long(0)))
        ctypes.memset(at, 1, size.value)
        libc.mprotect(at, size, 1)
    time.sleep(40)
"""
THREADS = """
import threading, time
def f(n):
    threading.stack_size(32768)
    for _ in range(1100):
        threading.Thread(target=time.sleep, args=(40,), daemon=True).start()
    time.sleep(40)
"""


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (READ_ONLY, r"its process was killed: it used \d+ MiB of memory; the limit is 384 MiB"),
        (THREADS, r"its process was killed: it had \d+ threads; the limit is 1024"),
    ],
)
def test_a_process_that_takes_too_much_is_ended(source: str, why: str) -> None:
    made = replace(function(source), limits=Limits(50.0, 128 << 20))
    try:
        with pytest.raises(UserError, match=why):
            call_function(made, pl.DataFrame({"n": [1]}), 1)
    finally:
        sandbox_of(made).close()
