"""The process in which code of users runs: it reads requests from its standard input and answers on its output.

A message is its length (8 bytes) and its content. The first request is a JSON document about the code; each later one
is an Arrow stream with the arguments of a call. An answer begins with a byte: 0 and an Arrow stream with the values, or
1 and a JSON document about the error. This file is run by its path, and imports nothing of ours.
"""

import base64
import ctypes
import importlib.abc
import importlib.util
import io
import json
import linecache
import os
import resource
import signal
import struct
import sys
import traceback
import types
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, BinaryIO

import pyarrow as pa

#: The name of a package that is a single module.
MODULE = "function"
_PR_SET_PDEATHSIG = 1
_MOST_FILES = 64


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the modules of a package from memory, before those that are installed."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name, if the package has it."""
        if fullname in self._sources or self.is_package(fullname):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def is_package(self, fullname: str) -> bool:
        """Whether there are modules below it."""
        return any(name.startswith(f"{fullname}.") for name in self._sources)

    def get_source(self, fullname: str) -> str:
        """The text of a module."""
        return self._sources.get(fullname, "")

    def get_code(self, fullname: str) -> Any:
        """The code of a module, whose lines tracebacks show."""
        text, place = self.get_source(fullname), f"<{fullname}>"
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        return compile(text, place, "exec")


def sources_of(package: bytes) -> dict[str, str]:
    """The texts of a package by the names of their modules."""
    if not zipfile.is_zipfile(io.BytesIO(package)):
        return {MODULE: package.decode()}
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        return {_module(name): archive.read(name).decode() for name in names}


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def load(package: bytes, handler: str) -> Any:
    """The object that a handler names: `module:name`, or a name in the only module."""
    sources = sources_of(package)
    sys.meta_path.insert(0, Modules(sources))
    module, _, name = handler.rpartition(":")
    found: Any = importlib.import_module(module or MODULE)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def applied(function: Callable[..., Any], arguments: pa.RecordBatch, result: pa.DataType) -> "pa.Array[Any]":
    """The values of a call, in the declared type; TypeError or ValueError if they are not such values."""
    given = function(*arguments.columns)
    values = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if not isinstance(values, pa.Array):
        values = pa.array(values, type=result, from_pandas=True)
    if len(values) != arguments.num_rows:
        raise ValueError(f"it returned {len(values)} values for {arguments.num_rows} rows")
    return values if values.type == result else values.cast(result)


class Conversation:
    """Messages over two files."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing

    def receive(self) -> bytes | None:
        """The next message; None when there will be none."""
        head = self._reading.read(8)
        if len(head) < 8:
            return None
        (length,) = struct.unpack("<q", head)
        return self._reading.read(length)

    def send(self, content: bytes) -> None:
        """Sends a message."""
        self._writing.write(struct.pack("<q", len(content)) + content)
        self._writing.flush()


def failure(error: BaseException) -> bytes:
    """The answer for an error: its text and the traceback within the code of the user."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    listed = "".join(traceback.format_list(frames)) + "".join(traceback.format_exception_only(error))
    kind = type(error).__name__
    return b"\1" + json.dumps({"kind": kind, "message": str(error), "traceback": listed}).encode()


def _confine(memory: int) -> None:
    """Limits what the process may do from here on; it dies with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    limit = _data_bytes() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _data_bytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))


def _answers(call: Callable[[pa.RecordBatch], "pa.Array[Any]"], conversation: Conversation) -> None:
    while (request := conversation.receive()) is not None:
        try:
            with pa.ipc.open_stream(request) as reader:
                values = call(reader.read_next_batch())
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, pa.schema([("value", values.type)])) as writer:
                writer.write_batch(pa.record_batch([values], names=["value"]))
            conversation.send(b"\0" + sink.getvalue())
        except (Exception, SystemExit) as error:  # noqa: BLE001 the outermost place of the process
            conversation.send(failure(error))


def main() -> None:
    """Talks over the standard input and output; what the code prints goes nowhere."""
    conversation = Conversation(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    opening = conversation.receive()
    if opening is None:
        return
    about = json.loads(opening)
    _confine(about["memory"])
    try:
        function = load(base64.b64decode(about["package"]), about["handler"])
    except (Exception, SystemExit) as error:  # noqa: BLE001 the outermost place of the process
        conversation.send(failure(error))
        return
    conversation.send(b"\0")
    result = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["result"]))).field(0).type
    _answers(lambda arguments: applied(function, arguments, result), conversation)


if __name__ == "__main__":
    main()
