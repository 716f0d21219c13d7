"""The package dsms-client has what `import dsms.client` imports, and works without the rest of the system."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.client_package import PROJECT, ROOT, built_wheel, environment_with

SETTINGS = PROJECT["tool"]["setuptools"]
#: Modules of the packages that are listed as a whole, so that types are found, but not needed.
NOT_NEEDED = {"connectors.alarms", "connectors.durable", "dsms.command"}
IMPORTED = """
import json, sys
import dsms.client, dsms.client.built_queries
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def ours(modules: list[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] in ("dsms", "operators", "connectors")}


def imported() -> list[str]:
    """The modules that a new process has after it imports the client."""
    command = [sys.executable, "-c", IMPORTED]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)


def test_the_client_imports_little() -> None:
    roots = {name.split(".")[0] for name in imported()}
    heavy = {"pyspark", "py4j", "pandas", "numpy", "pyarrow", "polars", "duckdb", "sqlglot", "confluent_kafka", "kafka"}
    assert not roots & (heavy | {"redis", "kubernetes", "fastapi", "typer", "opentelemetry", "sqlalchemy"})


def test_the_wheel_has_the_modules_that_the_client_imports(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        files = [name for name in content.namelist() if name.endswith(".py")]
        typed = {name for name in content.namelist() if name.endswith("py.typed")}
    modules = {re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".") for name in files}
    assert modules == ours(imported()) | NOT_NEEDED
    assert typed == {"connectors/py.typed", "dsms/py.typed", "dsms/client/py.typed", "operators/py.typed"}
    assert wheel.stat().st_size < 1_000_000


def test_both_packages_have_one_version_and_the_same_requirements() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = PROJECT["project"]
    assert client["version"] == whole["version"]
    assert client["requires-python"] == whole["requires-python"]
    assert set(client["dependencies"]) <= set(whole["dependencies"])


def test_the_package_works_without_the_rest(wheel: Path, tmp_path: Path) -> None:
    python = environment_with(wheel, tmp_path / "environment")
    program = """
import importlib.util, json
from dsms.client import Client, Unavailable
from dsms.client.documents import Relation
from operators.core.errors import UserError
relation = Relation("hot", 7, ["room"], [["a"]], 1, ["VARCHAR"])
try:
    relation.polars()
except UserError as error:
    refused = str(error)
try:
    Client("http://127.0.0.1:9", token="x", attempts=1).status()
except Unavailable as error:
    unavailable = error.kind
absent = [name for name in ("pyspark", "polars", "sqlglot") if importlib.util.find_spec(name) is None]
print(json.dumps([list(relation), refused, unavailable, absent]))
"""
    done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows, refused, _, absent = json.loads(done.stdout)
    assert rows == [{"room": "a"}]
    assert refused.startswith("results as tables need the package dsms") and "Relation.rows" in refused
    assert absent == ["pyspark", "polars", "sqlglot"]
