"""What the system does with a statement is found through `STATEMENTS`, not by a chain of tests of its class.

A function may test for one kind of statement, such as the one that it handles differently from all others. With a
second test it begins to list kinds, and a new kind would have to be added to it. `assert isinstance(…)` chooses nothing
and does not count; a test for a union counts once.
"""

from __future__ import annotations

import ast
import importlib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsms.model import statements
from dsms.model.statements import Statement

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "dsms").rglob("*.py") if path.name != "__main__.py")


def chains(source: str, names: Mapping[str, Any]) -> Iterator[str]:
    """The functions of a module that test for several kinds of statements, as `name:line`. `names` are the names that
    the module defines and imports."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            tested = [place for place in classes_tested(function) if is_about_statements(place, names)]
            if len(tested) > 1:
                yield f"{function.name}:{function.lineno}"


def classes_tested(function: ast.AST) -> Iterator[ast.expr]:
    """The classes of the `isinstance` tests and `case` patterns of a function, outside of assert."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Assert):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield node.args[1]
        if isinstance(node, ast.MatchClass):
            yield node.cls
        yield from classes_tested(node)


def is_about_statements(place: ast.expr, names: Mapping[str, Any]) -> bool:
    try:
        found = eval(ast.unparse(place), dict(names))
    except (NameError, AttributeError):  # a local name
        return False
    return any(map(is_statement, parts_of(found)))


def parts_of(found: Any) -> Iterator[Any]:
    """The classes of a tuple or union."""
    if isinstance(found, tuple):
        yield from (part for each in found for part in parts_of(each))
    elif isinstance(found, types.UnionType):
        yield from typing.get_args(found)
    else:
        yield found


def is_statement(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Statement) and found is not Statement


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_lists_kinds_of_statements(path: Path) -> None:
    source = path.read_text()
    if "isinstance(" in source or "case " in source:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        assert list(chains(source, vars(importlib.import_module(module)))) == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return isinstance(s, st.Insert) or isinstance(s, st.Update)", ["f:1"]),
        ("if isinstance(s, st.Load): return 1\n    return [0 for x in s if isinstance(x, (int, st.Select))]", ["f:1"]),
        ("match s:\n        case st.Insert(): return 1\n        case st.Update(): return 2", ["f:1"]),
        ("return isinstance(s, st.Insert | st.Update)", []),
        ("assert isinstance(s, st.Insert); return isinstance(s, st.Update)", []),
        ("return isinstance(s, st.Name) or isinstance(s, st.TextLocation)", []),
    ],
)
def test_a_list_of_kinds_would_be_seen(body: str, found: list[str]) -> None:
    assert list(chains(f"def f(s):\n    {body}", {"st": statements})) == found
