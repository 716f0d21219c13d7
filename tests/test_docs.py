"""Checks of documents and docstrings: doctests, blocks marked runnable, notebooks, links, and the length of lines.

A block is runnable when its fence says so: ```sql runnable. Each block of SQL runs in a LocalSession of its own; all
Python blocks of a file run in one namespace. The cells of a notebook return the outputs that it shows. Relative links
lead to a file and, if they name a heading, to a heading of this file.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from dsms.local.settings import LocalSettings
from dsms.testing import LocalSession

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("operators", "connectors", "dsms")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__main__.py"
)
#: Every document.
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
#: Lines are shorter, except for an address, which cannot be broken.
LONGEST = 180
PAGES = [path for path in DOCUMENTS if path.name == "README.md" or path.parent != ROOT]
BLOCK = re.compile(r"^```(python|sql) runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.ipynb")), ids=lambda page: page.name)
def test_notebooks_show_what_their_cells_give(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "notebook"}
    for cell in json.loads(page.read_text())["cells"]:
        if cell["cell_type"] == "code":
            shown = ["".join(output.get("text") or output["data"]["text/plain"]) for output in cell["outputs"]]
            assert given(cell, namespace) == shown


def given(cell: dict[str, list[str]], namespace: dict[str, object]) -> list[str]:
    """The text that a cell prints, and the value of its last expression."""
    tree, printed = ast.parse("".join(cell["source"])), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace) if last else None  # type: ignore[attr-defined]
    texts = [printed.getvalue(), "" if value is None or isinstance(value, list) and not value else repr(value)]
    return [text for text in texts if text]


def anchors(page: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them: `## A *row*` gives a-row; of two equal headings the
    second gives a-row-1."""
    counts: Counter[str] = Counter()
    made = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        made.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return made


def dead_links(page: Path) -> list[str]:
    """The relative links of a document that lead nowhere."""
    dead = []
    for target in LINK.findall(CODE.sub("", FENCED.sub("", page.read_text()))):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    too_long = [
        f"{page.relative_to(ROOT)}:{number} has {len(line)} characters"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) >= LONGEST and not re.fullmatch(r"\s*(\[[^\]]*\]: )?<?https?://\S+", line)
    ]
    assert not too_long, "\n".join(too_long)


@pytest.mark.parametrize("process", ["coordinator", "executor"])
def test_every_setting_is_in_operations(process: str) -> None:
    options = inspect.signature(importlib.import_module(f"dsms.{process}.__main__").main).parameters
    settings = (ROOT / "docs" / "operations.md").read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    executor, _, coordinator = settings.partition("and a coordinator")
    listed = set(re.findall(r"`--([a-z-]+)`", executor if process == "executor" else coordinator))
    assert listed == {name.replace("_", "-") for name in options}


def test_every_setting_of_one_machine_is_in_local() -> None:
    settings = (ROOT / "docs" / "local.md").read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    keys = {name for row in re.findall(r"^\| (`.*?) \|", settings, re.MULTILINE) for name in re.findall("`(.*?)`", row)}
    assert keys == set(LocalSettings.__struct_fields__) - {"data_dir"}
