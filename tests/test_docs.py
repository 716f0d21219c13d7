"""What is written runs: doctests of the packages, and blocks marked runnable in README.md and docs/.

A block is runnable when its fence says so: ```sql runnable. Each block of SQL runs in a LocalSession of its own, blocks
of Python of one file in one namespace.
"""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from dsms.testing import LocalSession

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("operators", "connectors", "dsms")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__main__.py"
)
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()]
BLOCK = re.compile(r"^```(python|sql) runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_runnable_blocks(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "docs"}
    for language, text in BLOCK.findall(page.read_text()):
        if language == "sql":
            LocalSession().execute(text)
        else:
            exec(compile(text, str(page), "exec"), namespace)
