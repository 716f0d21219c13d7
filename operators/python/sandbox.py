"""Calls of Python functions in processes of their own: one for each function and process that calls it.

The law: code of users can harm nothing but its own query. It has a time for each call, an amount of memory, no files
but the libraries, no network, no other process; what it raises, and the end of its process, is an error that names the
function and the row. What it answers is checked before anything uses it. `docs/design/20261128-python-sandbox.md` says
how.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from operators.core.errors import ConfigError, UserError
from operators.python.child import fold_answer
from operators.python.definition import PythonClass, PythonFunction

_PROGRAM = Path(__file__).with_name("process.py")
#: The setting of executors, which their workers inherit, and what it may be: whether code of users runs only in the
#: sandbox, in as much of it as the platform has, or without it.
SWITCH: Final = "DSMS_PYTHON_SANDBOX"
MODES: Final = ("require", "prefer", "off")
#: A process that has not loaded its code after this time is given up; imports count.
_START_S = 60.0
_MOST_PROCESSES = 64
#: By how much an answer may be larger than the memory of the function: what its process has without it.
_OWN_BYTES = 256 << 20
_WHAT_IT_HAS = "code in Python runs without network, other programs and files but those of installed packages"


class FunctionFailed(UserError):
    """Code of a user raised, took too long or ended. `repeatable`: whether fewer rows may tell which of them it was;
    `at`: the event of an aggregate that was running, if that is known."""

    def __init__(self, message: str, *, repeatable: bool = True, at: int | None = None) -> None:
        super().__init__(message)
        self.repeatable, self.at = repeatable, at


class Sandbox:
    """The process of a function or aggregate. It is started by the first call, and again after it ended."""

    def __init__(self, function: PythonFunction | PythonClass) -> None:
        self._function = function
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, arguments: pa.RecordBatch) -> pa.Array[Any]:
        """The values of a call. Raises FunctionFailed."""
        process = self._started()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, arguments.schema) as writer:
            writer.write_batch(arguments)
        answer = self._answer(process, sink.getvalue().to_pybytes(), self._function.limits.seconds)
        try:
            return _values(self._function, answer, arguments.num_rows)
        except (pa.ArrowException, ValueError, StopIteration) as error:
            raise self._unreadable(error) from None

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            check_requirements(self._function)
            command = [sys.executable, "-I", "-B", str(_PROGRAM), mode_of(os.environ)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, cwd="/", bufsize=0
            )
            self._load(self._process)
        return self._process

    def _load(self, process: subprocess.Popen[bytes]) -> None:
        try:
            missing = json.loads(self._answer(process, self._opening(), _START_S))
        except FunctionFailed as error:
            self.close()
            raise FunctionFailed(error.message, repeatable=False) from None
        if missing:
            warnings.warn(
                f'"{self._function.name}" runs without all of its sandbox: {"; ".join(missing)}', stacklevel=2
            )

    def _opening(self) -> bytes:
        function = self._function
        result = pa.schema([("value", function.result)]).serialize().to_pybytes()
        about = {
            "package": base64.b64encode(function.package.source).decode(),
            "handler": function.handler,
            "result": base64.b64encode(result).decode(),
            "memory": function.limits.bytes,
            "aggregate": isinstance(function, PythonClass),
        }
        return json.dumps(about).encode()

    def _answer(self, process: subprocess.Popen[bytes], request: bytes, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        assert process.stdin is not None and process.stdout is not None
        try:
            _write(process.stdin, struct.pack("<q", len(request)) + request, deadline)
            (length,) = struct.unpack("<q", _read(process.stdout, 8, deadline))
            if not 0 < length <= self._function.limits.bytes + _OWN_BYTES:
                self.close()
                raise FunctionFailed(f"its process announced an answer of {length} bytes", repeatable=False)
            answer = _read(process.stdout, length, deadline)
        except TimeoutError:
            self.close()
            raise FunctionFailed(f"it took longer than {seconds:g} s", repeatable=False) from None
        except (EOFError, BrokenPipeError):
            code = process.wait()
            self.close()
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise FunctionFailed(f"its process ended: {ended}") from None
        try:
            return _told(answer)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> FunctionFailed:
        """Code of users can write answers of its own, after which no further one is believed."""
        self.close()
        return FunctionFailed(f"its process gave an answer that cannot be read: {error}", repeatable=False)


def mode_of(environ: Mapping[str, str]) -> str:
    """How code of users is confined, `require` if nothing is said. Raises ConfigError.

    >>> mode_of({}), mode_of({"DSMS_PYTHON_SANDBOX": "off"})
    ('require', 'off')
    """
    mode = environ.get(SWITCH) or MODES[0]
    if mode not in MODES:
        raise ConfigError(f'{SWITCH} is "{mode}"', hint=f"choose one of {', '.join(MODES)}")
    return mode


def _told(answer: bytes) -> bytes:
    """What an answer holds. Raises FunctionFailed if it is an error."""
    kind, content = answer[:1], answer[1:]
    if kind == b"\2":
        missing = "; ".join(json.loads(content))
        raise FunctionFailed(
            f"code in Python runs only in a sandbox, which this executor cannot have: {missing}. "
            "Run the executors where it can be had (docs/security.md#what-python-may-do), or start them with "
            f"{SWITCH}=prefer, which gives such code what the executor may do and the platform does not take away",
            repeatable=False,
        )
    if kind == b"\1":
        told = json.loads(content)
        text = f"{told['kind']}: {told['message']}\n{told['traceback']}".rstrip()
        raise FunctionFailed(f"{text}\n{_WHAT_IT_HAS}" if told["kind"] == "PermissionError" else text, at=told["at"])
    return content


def _values(function: PythonFunction | PythonClass, answer: bytes, rows: int) -> pa.Array[Any]:
    """The values of an answer; ValueError or ArrowException if it is not one, since code of users can write it."""
    expected = fold_answer(function.result) if isinstance(function, PythonClass) else function.result
    with pa.ipc.open_stream(answer) as reader:
        values = reader.read_next_batch().column(0)
    values.validate(full=True)
    if values.type != expected or len(values) != rows:
        raise ValueError(f"{len(values)} values of type {values.type} for {rows} rows of type {expected}")
    return values


def _write(pipe: IO[bytes], content: bytes, deadline: float) -> None:
    os.set_blocking(pipe.fileno(), False)
    left = memoryview(content)
    while left:
        _, ready, _ = select.select([], [pipe], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError
        left = left[os.write(pipe.fileno(), left) :]


def _read(pipe: IO[bytes], length: int, deadline: float) -> bytes:
    content = bytearray()
    while len(content) < length:
        ready, _, _ = select.select([pipe], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError
        piece = os.read(pipe.fileno(), length - len(content))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)


def check_requirements(function: PythonFunction | PythonClass) -> None:
    """Raises FunctionFailed for a requirement that is not installed here: executors install nothing."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement

    for text in function.package.requirements:
        wanted = Requirement(text)
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            raise FunctionFailed(
                f'it requires "{text}", which is not installed: add it to the image of the executors', repeatable=False
            ) from None
        if not wanted.specifier.contains(found, prereleases=True):
            raise FunctionFailed(
                f'it requires "{text}", but {found} is installed: change the image of the executors', repeatable=False
            )


@lru_cache(maxsize=_MOST_PROCESSES)
def sandbox_of(function: PythonFunction | PythonClass) -> Sandbox:
    """The sandbox of a function or aggregate in this process, which ends with it."""
    made = Sandbox(function)
    atexit.register(made.close)
    return made
