"""The process that runs user code: it reads requests from its standard input and answers on its standard output.

A message is its length (8 bytes) and its content. The first request is a JSON document about the code; each later
request is an Arrow stream with the arguments of a call. An answer begins with a byte: 0 before an Arrow stream with the
values, or 1 before a JSON document about the error. The answer to the first request has, instead of values, a JSON list
that says which restrictions of the process do not hold; it begins with 0, or with 2 if a required one does not hold. In
that case no user code runs. `process.py` runs this file by its path; it imports no other module of this project.
"""

import base64
import importlib.abc
import importlib.util
import io
import json
import linecache
import os
import pickle
import struct
import sys
import traceback
import types
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, BinaryIO, cast

import pyarrow as pa

#: The name of the module if a package is a single module.
MODULE = "function"
#: The actions of an event of an aggregate, as bits, in the order of execution: the state starts over, the row leaves
#: the window, the row enters, `terminate` runs. The same bits as in `operators.user_aggregates.generate`.
RESTART, LEAVE, COME, END = 8, 2, 1, 4


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the modules of a package from memory; they take precedence over installed modules."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module, if the package has it."""
        if fullname in self._sources or self.is_package(fullname):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def is_package(self, fullname: str) -> bool:
        """Whether the package has modules below this name."""
        return any(name.startswith(f"{fullname}.") for name in self._sources)

    def get_source(self, fullname: str) -> str:
        """Returns the text of a module."""
        return self._sources.get(fullname, "")

    def get_code(self, fullname: str) -> Any:
        """Returns the code of a module, and stores its lines for tracebacks."""
        text, place = self.get_source(fullname), f"<{fullname}>"
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        return compile(text, place, "exec")


def sources_of(package: bytes) -> dict[str, str]:
    """Returns the texts of the modules of a package by their names."""
    if not zipfile.is_zipfile(io.BytesIO(package)):
        return {MODULE: package.decode()}
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        return {_module(name): archive.read(name).decode() for name in names}


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def load(package: bytes, handler: str) -> Any:
    """Returns the object that a handler names: `module:name`, or a name in the only module."""
    sources = sources_of(package)
    sys.meta_path.insert(0, Modules(sources))
    module, _, name = handler.rpartition(":")
    found: Any = importlib.import_module(module or MODULE)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def call_on_batch(function: Callable[..., Any], arguments: pa.RecordBatch, result: pa.DataType) -> "pa.Array[Any]":
    """Returns the values of a call in the declared type. Raises TypeError or ValueError if they do not have this type,
    or if there is not one for each row."""
    given = function(*arguments.columns)
    values = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if not isinstance(values, pa.Array):
        values = pa.array(values, type=result, from_pandas=True)
    if len(values) != arguments.num_rows:
        raise ValueError(f"it returned {len(values)} values for {arguments.num_rows} rows")
    return values if values.type == result else values.cast(result)


class AggregateRunner:
    """Runs the events of an aggregate, group after group; the state of a group is an instance of a class of the user.
    An event is what happens to a group with one row; its actions are the bits RESTART, LEAVE, COME and END.

    A batch is one row of lists: the number of events of each group, the groups' states, the actions of each event, and
    for each parameter its values, one for each event. The answer is one row of lists, too: the states after the events,
    the indices of the events that returned a value, and these values. `terminate` returns the values; in a class
    without it, `iterate` or `initialise` does.
    """

    def __init__(self, class_: type[Any], result: pa.DataType) -> None:
        self._class, self._result = class_, result
        self._ends = hasattr(class_, "terminate")
        #: The index of the event that is running.
        self.at = 0

    def __call__(self, batch: pa.RecordBatch) -> "pa.Array[Any]":
        """Returns the answer to a batch."""
        columns = cast("list[pa.ListArray[Any]]", batch.columns)
        sizes, states, codes = cast("Iterable[list[Any]]", (lists.flatten().to_pylist() for lists in columns[:3]))
        self._arrays: list[Any] = [lists.flatten() for lists in columns[3:]]
        self._rows = list(zip(*(array.to_pylist() for array in self._arrays), strict=True)) or [()] * len(codes)
        self._returned: list[tuple[int, Any]] = []
        after, first = [], 0
        for size, state in zip(sizes, states, strict=True):
            self.at = first
            after.append(pickled_state(self._group(self._restored(state), codes, first, first + size)))
            first += size
        values = [self._converted(at, value) for at, value in self._returned]
        answer = {"states": after, "at": [at for at, _ in self._returned], "values": values}
        return pa.array([answer], type=fold_answer(self._result))

    def _restored(self, state: bytes | None) -> Any:
        if state is None:
            return None
        instance, attributes = object.__new__(self._class), pickle.loads(state)
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(attributes)
        elif isinstance(attributes, tuple):  # the class has slots
            for part in filter(None, attributes):
                for name, value in part.items():
                    setattr(instance, name, value)
        else:
            instance.__dict__.update(attributes or {})
        return instance

    def _group(self, instance: Any, codes: Sequence[int], first: int, end: int) -> Any:
        at = first
        while at < end:
            self.at, code = at, codes[at]
            if code & RESTART:
                instance = None
            last = self._together(instance, codes, at, end)
            if last > at:
                instance = self._class() if instance is None else instance
                call = instance.iterate_arrays if code & COME else instance.expire_arrays
                call(*(array.slice(at, last - at) for array in self._arrays))
                at, code = last - 1, codes[last - 1] & END
            if code & LEAVE:
                instance.expire(*self._rows[at])
            if code & COME:
                instance = self._come(instance, at)
            if code & END and self._ends:
                self._returned.append((at, instance.terminate()))
            at += 1
        return instance

    def _together(self, instance: Any, codes: Sequence[int], at: int, end: int) -> int:
        """Returns the end of the range of events from `at` on that can run as one call of `iterate_arrays` or
        `expire_arrays`; `at` if the first event cannot."""
        kind = codes[at] & (COME | LEAVE)
        name = {COME: "iterate_arrays", LEAVE: "expire_arrays"}.get(kind, "")
        if not self._ends or not hasattr(self._class, name):
            return at
        if instance is None and (kind == LEAVE or hasattr(self._class, "initialise")):
            return at
        last = at + 1
        while last < end and not codes[last - 1] & END and codes[last] & ~END == kind:
            last += 1
        return last

    def _come(self, instance: Any, at: int) -> Any:
        """Adds the row of an event to an instance, which is created if it is None; returns the instance."""
        if instance is None:
            instance = self._class()
            first = getattr(instance, "initialise", None) or instance.iterate
            value = first(*self._rows[at])
        else:
            value = instance.iterate(*self._rows[at])
        if not self._ends and value is not None:
            self._returned.append((at, value))
        return instance

    def _converted(self, at: int, value: Any) -> Any:
        """Returns a value in the declared type. Raises TypeError or ValueError if it does not have this type."""
        self.at = at
        if isinstance(value, float) and pa.types.is_integer(self._result) and not value.is_integer():
            raise ValueError(f"it returned {value!r}, which is not a whole number")
        return pa.scalar(value, type=self._result).as_py()


def pickled_state(instance: Any) -> bytes | None:
    """Returns the state of an instance: its pickled attributes."""
    return None if instance is None else pickle.dumps(instance.__getstate__(), protocol=5)


def fold_answer(result: pa.DataType) -> pa.DataType:
    """Returns the type of the answer to a batch of events."""
    types: dict[str, pa.DataType] = {"states": pa.large_binary(), "at": pa.int64(), "values": result}
    return pa.struct([pa.field(name, pa.list_(type_)) for name, type_ in types.items()])


class Conversation:
    """Receives and sends messages over two files."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing

    def receive(self) -> bytes | None:
        """Returns the next message; None at the end of the input."""
        head = self._reading.read(8)
        if len(head) < 8:
            return None
        (length,) = struct.unpack("<q", head)
        return self._reading.read(length)

    def send(self, content: bytes) -> None:
        """Sends a message."""
        self._writing.write(struct.pack("<q", len(content)) + content)
        self._writing.flush()


def failure(error: BaseException, at: int | None = None) -> bytes:
    """Returns the answer for an error: its text, the traceback within the user code, and the event that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    listed = "".join(traceback.format_list(frames)) + "".join(traceback.format_exception_only(error))
    kind = type(error).__name__
    return b"\1" + json.dumps({"kind": kind, "message": str(error), "traceback": listed, "at": at}).encode()


def _answers(call: Callable[[pa.RecordBatch], "pa.Array[Any]"], conversation: Conversation) -> None:
    while (request := conversation.receive()) is not None:
        try:
            with pa.ipc.open_stream(request) as reader:
                values = call(reader.read_next_batch())
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, pa.schema([("value", values.type)])) as writer:
                writer.write_batch(pa.record_batch([values], names=["value"]))
            conversation.send(b"\0" + sink.getvalue())
        except (Exception, SystemExit) as error:  # noqa: BLE001 the outermost handler of the process
            conversation.send(failure(error, getattr(call, "at", None)))


def main(confine: Callable[[int], list[str]], nowhere: int, *, strict: bool) -> None:
    """Answers requests over the standard input and output. User code sees the file descriptor `nowhere` (of /dev/null)
    in their place, so its output does not mix with answers.

    `confine` limits the memory to a number of bytes, applies the other restrictions, and returns for each one that does
    not hold the reason. If it returns any and `strict` is set, no user code runs.
    """
    conversation = Conversation(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    opening = conversation.receive()
    if opening is None:
        return
    about = json.loads(opening)
    missing = confine(about["memory"])
    if missing and strict:
        conversation.send(b"\2" + json.dumps(missing).encode())
        return
    try:
        function = load(base64.b64decode(about["package"]), about["handler"])
    except (Exception, SystemExit) as error:  # noqa: BLE001 the outermost handler of the process
        conversation.send(failure(error))
        return
    conversation.send(b"\0" + json.dumps(missing).encode())
    result = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["result"]))).field(0).type
    if about["aggregate"]:
        _answers(AggregateRunner(function, result), conversation)
    else:
        _answers(lambda arguments: call_on_batch(function, arguments, result), conversation)
