"""The native part under sanitizers: for malformed batches and records it touches nothing outside its buffers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.native.library import SWITCH, build, compiler

ROOT = Path(__file__).parents[2]
SANITIZED = ("-O1", "-g", "-std=c11", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def runtime() -> str:
    """The sanitizer's library, which must be loaded before Python; "" if the compiler has no sanitizer."""
    command = compiler()
    if command is None:
        return ""
    found = subprocess.run([*command, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    file = found.stdout.strip()
    return file if found.returncode == 0 and Path(file).is_absolute() else ""


#: Tests of memory limits, which the sanitizer's own memory would exceed; and properties about values, not about memory.
NOT_SANITIZED = (
    "not in_memory_together and not write_the_same and not read_the_values and not shortest and not may_be_meant"
)
FILES = ("test_record_batches.py", "test_json_native.py", "test_avro_native.py", "test_native_encode.py")


@pytest.mark.skipif(not runtime(), reason="the C compiler has no address sanitizer, or there is none")
def test_malformed_input_touches_nothing_else(tmp_path: Path) -> None:
    library = tmp_path / "native.so"
    assert "was built" in build(SANITIZED, library)
    environment = {
        **os.environ,
        "HYPOTHESIS_PROFILE": "unit",  # the sanitizer is slow; the same tests run with more examples without it
        "LD_PRELOAD": runtime(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        SWITCH: str(library),
    }
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", NOT_SANITIZED]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/connectors/{file}" for file in FILES)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
