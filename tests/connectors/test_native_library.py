"""Building the native part, and the reason why it is missing, in a copy that was never built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.native import library
from connectors.native.library import SWITCH, compiler

SOURCE = Path(library.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for file in (SOURCE / "library.py", *SOURCE.glob("*.[ch]")):
        shutil.copy(file, tmp_path)
    return tmp_path


def run(copy: Path, *arguments: str, **environment: str) -> str:
    """What Python prints in the copy, without the packages that are installed: one of them may be a compiler."""
    command = [sys.executable, "-S", *arguments]
    variables = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=True).stdout.strip()


def missing(copy: Path, **environment: str) -> str:
    return run(copy, "-c", "import library; print(library.missing())", **environment)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({SWITCH: "off"}, f"the native part is switched off by {SWITCH}"),
        ({SWITCH: "none.so"}, f'the native part cannot be loaded from "none.so", which {SWITCH} names'),
        ({"PATH": ""}, "the native part is not built, and there is no C compiler"),
        ({"CC": "cc"}, "the native part is not built (python -m connectors.native.library builds it)"),
    ],
)
def test_the_reason_why_it_is_missing_is_true(copy: Path, environment: dict[str, str], reason: str) -> None:
    assert missing(copy, **environment) == reason


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_after_the_build_it_is_not_missing(copy: Path) -> None:
    (command, *_) = compiler() or [""]
    if command == sys.executable:
        pytest.skip("the C compiler is a package, which the copy does not see")
    assert "was built" in run(copy, "library.py")
    assert "is already built" in run(copy, "library.py")
    assert missing(copy) == ""
