"""The native part: C code that converts between bytes and columns, without the interpreter lock.

It reads and writes Kafka's record batches (`records.c`), decodes records in JSON and Avro (`json_rows.c`,
`avro_rows.c`), and encodes them (`json_write.c`, `avro_write.c`).
`python -m connectors.native.library` builds it with the installed C compiler. Without a compiler, everything works in
Python and with confluent-kafka's messages, more slowly.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_FOLDER = Path(__file__).parent
_BUILT = Path(__file__).with_name("built")
_FLAGS = ("-O2", "-std=c11", "-shared", "-fPIC")
_TIMEOUT_S = 300.0
#: The environment variable that names another library to load, or is `off` to load none.
SWITCH = "DSMS_NATIVE_LIBRARY"
#: What records.c returns for a batch in a message format older than version 2.
OLD_FORMAT = -4

#: The functions that return a number of rows or bytes, and those that fill tables when the library is loaded.
_COUNTING = (
    "dsms_scan", "dsms_decode", "dsms_encode", "dsms_seal", "dsms_json_rows", "dsms_avro_rows", "dsms_json_records",
    "dsms_avro_records",
)  # fmt: skip
_PREPARING = ("dsms_records_init", "dsms_floats_init")
_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64


class GrowingColumn(ctypes.Structure):
    """`column_t` in records.c: a column to which decoded rows are appended. If `ends` is null, it is not decoded."""

    _fields_ = [
        ("data", _POINTER),
        ("ends", _POINTER),
        ("valid", _POINTER),
        ("used", _LONG),
        ("capacity", _LONG),
        ("nulls", _LONG),
    ]


class Rows(ctypes.Structure):
    """`rows_t` in records.c: the rows decoded so far."""

    _fields_ = [
        ("offsets", _POINTER),
        ("times", _POINTER),
        ("rows", _LONG),
        ("capacity", _LONG),
        ("key", GrowingColumn),
        ("value", GrowingColumn),
        ("headers", _POINTER),
        ("names", _POINTER),
        ("name_sizes", _POINTER),
        ("header_count", _LONG),
    ]


class GivenColumn(ctypes.Structure):
    """`source_t` in records.c: a column to be written."""

    _fields_ = [("data", _POINTER), ("starts", _POINTER), ("ends", _POINTER), ("valid", _POINTER)]


def _built_file() -> Path:
    """The file of the library for the current source, platform and flags."""
    text = b"".join(file.read_bytes() for file in sorted(_FOLDER.glob("*.[ch]")))
    digest = hashlib.sha256(text + " ".join(_FLAGS).encode()).hexdigest()[:16]
    return _BUILT / f"native-{sysconfig.get_platform()}-{digest}.so"


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The library that was built from the current source; None if it does not exist. The environment variable
    DSMS_NATIVE_LIBRARY names another file, or is `off` to use no library.
    """
    file = os.environ.get(SWITCH) or str(_built_file())
    return None if file == "off" else load(file)


def missing() -> str:
    """Why `library` returns None; "" if it returns a library."""
    if library() is not None:
        return ""
    file = os.environ.get(SWITCH)
    if file == "off":
        return f"the native part is switched off by {SWITCH}"
    if file:
        return f'the native part cannot be loaded from "{file}", which {SWITCH} names'
    if compiler() is None:
        return "the native part is not built, and there is no C compiler"
    return "the native part is not built (python -m connectors.native.library builds it)"


def load(file: str) -> ctypes.CDLL | None:
    """The library in a file; None if it cannot be loaded."""
    try:
        loaded = ctypes.CDLL(file)
    except OSError:
        return None
    for name in _COUNTING:
        getattr(loaded, name).restype = _LONG
    loaded.dsms_crc32c.restype = ctypes.c_uint32
    for name in ("dsms_partitions", *_PREPARING):
        getattr(loaded, name).restype = None
    for name in _PREPARING:
        getattr(loaded, name)()
    return loaded


def compiler() -> list[str] | None:
    """The command of a C compiler: $CC, one on the path, or the one in the package ziglang; None without one."""
    if given := os.environ.get("CC"):
        return shlex.split(given)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def build(flags: tuple[str, ...] = _FLAGS, file: Path | None = None) -> str:
    """Builds the library unless it exists, at its default path or in `file`; returns a line that says what was done.
    Never raises: without the library everything works, more slowly."""
    target = file or _built_file()
    if target.exists():
        return f"the native part is already built: {target.name}"
    command = compiler()
    if command is None:
        return (
            "no C compiler was found: kafka is read and written without the native part, which is slower "
            "(install cc, or: pip install ziglang)"
        )
    target.parent.mkdir(exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    arguments = [*command, *flags, "-o", str(partial), *map(str, sorted(_FOLDER.glob("*.c")))]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the native part could not be built: {error}"
    if done.returncode != 0:
        return f"the native part could not be built: {done.stderr.strip()[-500:]}"
    partial.replace(target)
    return f"the native part was built: {target.name}"


if __name__ == "__main__":
    print(build())  # noqa: T201 `make setup` shows it
