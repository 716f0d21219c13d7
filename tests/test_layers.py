"""Imports point one way, dsms → connectors → operators, and each foreign library has one home."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: What each package of ours may import of ours.
ALLOWED = {
    "operators": {"operators"},
    "connectors": {"operators", "connectors"},
    "dsms": {"operators", "connectors", "dsms"},
}
#: Where a foreign library is at home, and why it is there.
HOMES = {
    "pyspark": (("dsms/executor/",), "Spark runs fragments"),
    "py4j": (("dsms/executor/",), "Spark's own errors"),
    "confluent_kafka": (
        ("connectors/kafka/", "dsms/executor/", "dsms/local/probes.py"),
        "the log; a message's type crosses into the source task; is the broker up?",
    ),
    "redis": (("connectors/redis/", "dsms/local/probes.py"), "state and leases; is the server up?"),
    "kubernetes": (("connectors/kubernetes/",), "the lease of the leading coordinator"),
    "urllib3": (
        ("connectors/kafka/registry.py", "connectors/kubernetes/"),
        "the schema registry; errors of the Kubernetes client",
    ),
    "httpx2": (("connectors/kafka/avro_codec.py",), "errors of the schema registry's client"),
    "fastavro": (("connectors/formats/", "connectors/kafka/", "dsms/coordinator/"), "Avro schemas"),
    "avro": (("connectors/formats/", "dsms/coordinator/"), "compatibility of Avro schemas"),
    "sqlglot": (
        ("dsms/sql/", "dsms/one_time.py", "dsms/tables/statements.py", "dsms/cli/"),
        "parsing; trees end at the binder, or at what is asked once",
    ),
    "duckdb": (("dsms/one_time.py",), "the one-time SELECT, INSERT, UPDATE and DELETE"),
    "sqlalchemy": (("connectors/tables/",), "loading tables from databases"),
    "fastapi": (("dsms/coordinator/",), "REST"),
    "starlette": (("dsms/coordinator/",), "REST"),
    "uvicorn": (("dsms/coordinator/",), "REST"),
    "httpx": (
        ("dsms/cli/", "dsms/client/", "dsms/local/", "dsms/demo/"),
        "clients of REST services and downloads",
    ),
    "pydantic": (("dsms/coordinator/",), "documents of the REST API"),
    "typer": (
        (
            "dsms/cli/", "dsms/command.py", "dsms/coordinator/__main__.py", "dsms/executor/__main__.py",
            "dsms/demo/__main__.py",
        ),
        "command lines",
    ),
    "click": (("dsms/cli/",), "the command line"),
    "rich": (("dsms/cli/", "dsms/demo/"), "what people see"),
    "prompt_toolkit": (("dsms/cli/",), "the SQL shell"),
    "pygments": (("dsms/cli/",), "colours of the SQL shell"),
    "psutil": (("dsms/local/",), "processes of this machine"),
    "opentelemetry": (("dsms/",), "traces and metrics"),
    "structlog": (("dsms/",), "logs of the services"),
    "tenacity": (("dsms/", "connectors/"), "repeating what may succeed later"),
}  # fmt: skip
#: Arrow crosses every boundary; Polars and NumPy are the columns; msgspec is how documents are written.
EVERYWHERE = {"pyarrow", "polars", "numpy", "msgspec"}


def modules(package: str) -> Iterator[Path]:
    return (ROOT / package).rglob("*.py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The first names of all imports of a file, and their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield (node.module or "").split(".")[0], node.lineno


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(package)
        for name, line in imported(path)
        if name in ALLOWED and name not in ALLOWED[package]
    ]
    assert not upward, "\n".join(upward)


@pytest.mark.parametrize("package", ALLOWED)
def test_each_foreign_library_has_one_home(package: str) -> None:
    known = {*ALLOWED, *EVERYWHERE, *sys.stdlib_module_names}
    astray = [
        f"{path.relative_to(ROOT)}:{line} imports {name}; home: {HOMES.get(name, 'none, add it with a reason')}"
        for path in modules(package)
        for name, line in imported(path)
        if name not in known and not str(path.relative_to(ROOT)).startswith(HOMES.get(name, ((), ""))[0] or ("?",))
    ]
    assert not astray, "\n".join(astray)
