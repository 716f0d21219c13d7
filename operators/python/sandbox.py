"""Calls user-defined functions in separate processes: one for each function and each process that calls it.

The law: user code can harm only its own query. It has a time limit for each call, a memory limit, no files but the
libraries, no network and no other processes. An exception that it raises, or the end of its process, becomes an error
that names the function and the row. Its answers are checked before they are used.
`docs/design/20261128-python-sandbox.md` describes how.
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
from operators.python.watch import Watch

_PROGRAM = Path(__file__).with_name("process.py")
#: The environment variable of executors, which their workers inherit, and its values: user code runs only in the
#: sandbox, in as much of the sandbox as the platform supports, or without it.
MODE_VARIABLE: Final = "DSMS_PYTHON_SANDBOX"
MODES: Final = ("require", "prefer", "off")
#: A process that has not loaded its code, including imports, after this time is killed.
_START_S = 60.0
_MAX_PROCESSES = 64
#: The seconds that a process may take to end after it has closed its output.
_END_S = 2.0
#: The longest text about an error, in characters; it is logged, and shown to users who ask about the query.
_LONGEST_TEXT = 10_000
#: The exceptions that reading an invalid answer raises.
_UNREADABLE = (
    *(pa.ArrowException, ValueError, TypeError, LookupError, OSError, StopIteration),
    *(ArithmeticError, RecursionError, MemoryError, struct.error),
)
#: The numbers of fields in Arrow's format: the header of a message, and the compression of a record batch.
_HEADER, _COMPRESSION = 2, 3
#: The memory that a process has in addition to the memory of its function; also added to the largest size of an answer.
_OWN_BYTES = 256 << 20
_WHAT_IT_HAS = "Python code has no network, starts no programs and reads only the files of installed packages"


class FunctionFailed(UserError):
    """User code raised an exception or took too long, or its process ended. `repeatable`: whether calls with fewer rows
    may find the row at which it failed; `at`: the event of an aggregate that was running, if known."""

    def __init__(self, message: str, *, repeatable: bool = True, at: int | None = None) -> None:
        super().__init__(message)
        self.repeatable, self.at = repeatable, at


class Sandbox:
    """The process of a function or aggregate. The first call starts it, and so does the next call after it ended."""

    def __init__(self, function: PythonFunction | PythonClass) -> None:
        self._function = function
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    def call(self, arguments: pa.RecordBatch) -> pa.Array[Any]:
        """Returns the values of a call. Raises FunctionFailed if it fails."""
        process = self._started()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, arguments.schema) as writer:
            writer.write_batch(arguments)
        seconds = self._function.limits.seconds
        late = f"it took longer than {seconds:g} s; make it faster or raise its time limit"
        answer = self._answer(process, sink.getvalue().to_pybytes(), seconds, late)
        try:
            return _values(self._function, answer, arguments.num_rows)
        except _UNREADABLE as error:
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
            self._watch = Watch(self._process, self._function.limits.bytes + _OWN_BYTES)
            self._load(self._process)
        return self._process

    def _load(self, process: subprocess.Popen[bytes]) -> None:
        try:
            late = f"its code was not loaded within {_START_S:g} s"
            missing = "; ".join(json.loads(self._answer(process, self._opening(), _START_S, late)))
        except FunctionFailed as error:
            self.close()
            raise FunctionFailed(error.message, repeatable=False) from None
        except _UNREADABLE as error:
            raise self._unreadable(error) from None
        if missing:
            warnings.warn(f'the sandbox of "{self._function.name}" is incomplete: {missing}', stacklevel=2)

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

    def _answer(self, process: subprocess.Popen[bytes], request: bytes, seconds: float, late: str) -> bytes:
        """Sends a request and returns the content of its answer; `late` is the error if this takes too long."""
        deadline = time.monotonic() + seconds
        assert process.stdin is not None and process.stdout is not None
        try:
            _write(process.stdin, struct.pack("<q", len(request)) + request, deadline)
            (length,) = struct.unpack("<q", _read(process.stdout, 8, deadline))
            limit = self._function.limits.bytes + _OWN_BYTES
            if not 0 < length <= limit:
                self.close()
                raise FunctionFailed(
                    f"its process announced an answer of {length} bytes; the limit is {limit}", repeatable=False
                )
            answer = _read(process.stdout, length, deadline)
        except TimeoutError:
            self.close()
            raise FunctionFailed(late, repeatable=False) from None
        except (EOFError, BrokenPipeError):
            raise self._ended(process) from None
        try:
            return _content_or_raise(answer)
        except _UNREADABLE as error:
            raise self._unreadable(error) from None

    def _ended(self, process: subprocess.Popen[bytes]) -> FunctionFailed:
        """Returns an error that says how a process that no longer answers has ended. Kills it if it only closed its
        files."""
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return FunctionFailed("its process closed its output and was killed", repeatable=False)
        finally:
            self.close()
        if self._watch is not None and self._watch.why is not None:
            return FunctionFailed(f"its process was killed: {self._watch.why}")
        return FunctionFailed(f"its process ended: {_signal(-code) if code < 0 else f'exit code {code}'}")

    def _unreadable(self, error: Exception) -> FunctionFailed:
        """Ends the process, because user code can forge answers, and returns the error."""
        self.close()
        return FunctionFailed(f"its process returned an unreadable answer: {error}", repeatable=False)


def mode_of(environ: Mapping[str, str]) -> str:
    """Returns how user code is confined, by default `require`. Raises ConfigError if the mode is unknown.

    >>> mode_of({}), mode_of({"DSMS_PYTHON_SANDBOX": "off"})
    ('require', 'off')
    """
    mode = environ.get(MODE_VARIABLE) or MODES[0]
    if mode not in MODES:
        raise ConfigError(f'{MODE_VARIABLE} is "{mode}"', hint=f"executors need one of {', '.join(MODES)}")
    return mode


def _content_or_raise(answer: bytes) -> bytes:
    """Returns the content of an answer. Raises FunctionFailed if it is an error."""
    kind, content = answer[:1], answer[1:]
    if kind == b"\2":
        missing = "; ".join(json.loads(content))
        raise FunctionFailed(
            f"Python code runs only in a sandbox, and this executor cannot provide one: {missing}. "
            "Run the executors on a platform that supports it (docs/security.md#what-python-may-do), or start them "
            f"with {MODE_VARIABLE}=prefer, which runs it with those rights of the executor that the platform cannot "
            "take away",
            repeatable=False,
        )
    if kind == b"\1":
        error = json.loads(content)
        text = "{}: {}\n{}".format(
            *(_shortened(str(error[part])) for part in ("kind", "message", "traceback"))
        ).rstrip()
        at = error["at"] if isinstance(error["at"], int) and error["at"] >= 0 else None
        raise FunctionFailed(f"{text}\n{_WHAT_IT_HAS}" if error["kind"] == "PermissionError" else text, at=at)
    return content


def _signal(number: int) -> str:
    """Returns the name of a signal, or its number if it has no name, such as a real-time signal."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} … ({len(text):,} characters)"


def _values(function: PythonFunction | PythonClass, answer: bytes, rows: int) -> pa.Array[Any]:
    """Returns the values of an answer. Raises one of `_UNREADABLE` if it is invalid, since user code can forge it.
    Compressed answers are refused, so the values are not larger than the answer."""
    expected = fold_answer(function.result) if isinstance(function, PythonClass) else function.result
    messages = pa.MessageReader.open_stream(answer)
    first, batch = messages.read_next_message(), messages.read_next_message()
    if (first.type, batch.type) != ("schema", "record batch"):  # Arrow does not check this
        raise ValueError(
            f'expected a schema and a record batch, got messages of the types "{first.type}" and "{batch.type}"'
        )
    schema = pa.ipc.read_schema(first)
    if [field.type for field in schema] != [expected]:
        raise ValueError(f"expected values of type {expected}, got {[str(field.type) for field in schema]}")
    if _is_compressed(batch.metadata.to_pybytes()):
        raise ValueError("its values are compressed, which is not allowed")
    values = pa.ipc.read_record_batch(batch, schema).column(0)
    values.validate(full=True)
    if len(values) != rows:
        raise ValueError(f"expected {rows} values, got {len(values)}")
    return values


def _is_compressed(message: bytes) -> bool:
    """Whether the record batch of a message, a table of Flatbuffers that Arrow has verified, names a compression."""
    (root,) = struct.unpack_from("<I", message)
    header = _place(message, root, _HEADER)
    return (
        header is None
        or _place(message, header + struct.unpack_from("<I", message, header)[0], _COMPRESSION) is not None
    )


def _place(message: bytes, table: int, field: int) -> int | None:
    """Returns the offset of a field of a table of Flatbuffers; None if it is not set."""
    names = table - struct.unpack_from("<i", message, table)[0]
    (size,) = struct.unpack_from("<H", message, names)
    at = 4 + 2 * field
    (offset,) = struct.unpack_from("<H", message, names + at) if at < size else (0,)
    return table + offset if offset else None


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
    """Raises FunctionFailed if a requirement is not installed here, because executors install nothing."""
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


@lru_cache(maxsize=_MAX_PROCESSES)
def sandbox_of(function: PythonFunction | PythonClass) -> Sandbox:
    """Returns the sandbox of a function or aggregate in this process. It ends with this process."""
    made = Sandbox(function)
    atexit.register(made.close)
    return made
