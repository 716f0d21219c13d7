"""Calls of Python functions in processes of their own: one for each function and process that calls it.

The law: code of users can harm nothing but its own query. It has a time for each call, an amount of memory, no files to
write; what it raises, and the end of its process, is an error that names the function and the row.
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
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from operators.core.errors import UserError
from operators.python.definition import PythonClass, PythonFunction

_CHILD = Path(__file__).with_name("child.py")
#: A process that has not loaded its code after this time is given up; imports count.
_START_S = 60.0
_MOST_PROCESSES = 64


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
        with pa.ipc.open_stream(answer) as reader:
            return reader.read_next_batch().column(0)

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
            environment = {"PATH": os.environ.get("PATH", ""), "ARROW_DEFAULT_MEMORY_POOL": "system"}
            command = [sys.executable, "-I", str(_CHILD)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
            )
            self._load(self._process)
        return self._process

    def _load(self, process: subprocess.Popen[bytes]) -> None:
        try:
            self._answer(process, self._opening(), _START_S)
        except FunctionFailed as error:
            self.close()
            raise FunctionFailed(error.message, repeatable=False) from None

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
            answer = _read(process.stdout, length, deadline)
        except TimeoutError:
            self.close()
            raise FunctionFailed(f"it took longer than {seconds:g} s", repeatable=False) from None
        except (EOFError, BrokenPipeError):
            code = process.wait()
            self.close()
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise FunctionFailed(f"its process ended: {ended}") from None
        if answer[:1] == b"\1":
            told = json.loads(answer[1:])
            raise FunctionFailed(f"{told['kind']}: {told['message']}\n{told['traceback']}".rstrip(), at=told["at"])
        return answer[1:]


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
