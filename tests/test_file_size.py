"""A file that grows beyond 600 lines is split by concept."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("operators", "connectors", "dsms", "tests", "integration", "benchmarks", "examples", "scripts")
MAX_LINES = 600


def test_no_file_is_too_long() -> None:
    sizes = {path: len(path.read_text().splitlines()) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert sizes
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > MAX_LINES} == {}
