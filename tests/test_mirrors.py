"""The tests mirror the packages: the tests of a package are in a folder of the same name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
#: Each package directly below these has a folder of tests.
MIRRORED = ("dsms", "operators")
#: Folders with tests of the whole system, with modules that tests share, and with golden files.
WHOLE_SYSTEM = ("algebra", "papers", "nexmark", "simulation", "helm", "support", "golden")
#: The first part of the name by which `tests` and `integration` import their own modules.
QUALIFIED = ("tests", "integration")
#: The first part of a module's name in an import that leaves out `tests` or `integration`; "" if it is relative.
UNQUALIFIED = {
    "",
    *(path.stem for root in QUALIFIED for path in (ROOT / root).rglob("*.py")),
    *(path.name for root in QUALIFIED for path in (ROOT / root).rglob("*") if path.is_dir()),
} - {"dsms", "operators", "connectors"}


def packages_of(root: str) -> Iterator[str]:
    """The packages directly below one that have source, as paths from the root of the repository."""
    for directory in sorted(path for path in (ROOT / root).iterdir() if path.is_dir()):
        if any(path.name != "__init__.py" for path in directory.rglob("*.py")):
            yield str(directory.relative_to(ROOT))


def test_every_package_has_a_folder_of_tests() -> None:
    packages = [package for root in MIRRORED for package in packages_of(root)]
    assert len(packages) > len(MIRRORED)
    assert [package for package in packages if not any((TESTS / package).rglob("test_*.py"))] == []


def test_every_test_file_lies_in_the_folder_of_a_package() -> None:
    """Files directly in `tests` are about the repository itself."""
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("*.py")} - {Path()}
    astray = [folder for folder in folders if folder.parts[0] not in WHOLE_SYSTEM and not is_package(ROOT / folder)]
    assert sorted(map(str, astray)) == []


def is_package(folder: Path) -> bool:
    return (folder / "__init__.py").exists() and any(path.is_file() for path in folder.rglob("*.py"))


def test_modules_of_tests_are_imported_by_their_full_names() -> None:
    """`from tests.support.oracle import bag`, never `from oracle import bag` or `from .oracle import bag`."""
    bare = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for root in QUALIFIED
        for path in sorted((ROOT / root).rglob("*.py"))
        for module, line in imports(path)
        if module.split(".")[0] in UNQUALIFIED
    ]
    assert bare == []


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, and the lines; "." begins a relative import."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), node.lineno


def test_no_test_patches_a_private_name() -> None:
    """Tests replace only public names, so that the possibility to replace them is part of a contract."""
    private = [
        f"{path.relative_to(ROOT)}:{line} patches {name}"
        for root in QUALIFIED
        for path in sorted((ROOT / root).rglob("*.py"))
        for name, line in patched(path)
        if name.split(".")[-1].startswith("_")
    ]
    assert private == []


def patched(path: Path) -> Iterator[tuple[str, int]]:
    """The names that a file passes to `setattr`, as in `patch.setattr(module, "name", value)`, and the lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            names = (argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant))
            yield from ((name, node.lineno) for name in names if isinstance(name, str))
