"""An `__init__` only re-exports: all names in `__all__` exist, and all imported names are in `__all__`."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INITS = sorted(
    path for package in ("operators", "connectors", "dsms") for path in (ROOT / package).rglob("__init__.py")
)


@pytest.mark.parametrize("path", INITS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_all_is_importable_and_complete(path: Path) -> None:
    module = importlib.import_module(".".join(path.parent.relative_to(ROOT).parts))
    exported = getattr(module, "__all__", None)
    tree = ast.parse(path.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").split(".")[0] in ("operators", "connectors", "dsms")]
    if exported is None:
        assert not ours, "what is re-exported is listed in __all__"
        return
    assert [name for name in exported if not hasattr(module, name)] == []
    assert sorted(exported) == sorted(set(exported))
    constants = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef)]
    if len(constants) == 1:
        names = {alias.asname or alias.name for node in ours for alias in node.names}
        assert names == set(exported)
