"""Spark's Python processes start with bytecode in place of a zip of sources, and without unnecessary modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from dsms.runtime.memory.allocators import ENVIRONMENT
from dsms.spark.compat import worker_daemon
from dsms.spark.compat.spark_home import linked_home


def run(code: str, *path: Path) -> str:
    """The output of code in a new Python process with these directories first on its path."""
    text = f"import sys; sys.path[:0] = {[str(directory) for directory in path]}; {code}"
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60).stdout


def loaded(module: str, heavy: set[str]) -> str:
    """The modules in `heavy` that the import of `module` loads."""
    return run(f"import {module}; print(sorted({heavy} & sys.modules.keys()))").strip()


def test_the_home_gives_the_installed_package(tmp_path: Path) -> None:
    home = linked_home(tmp_path / "home")
    said = run("import pyspark.daemon as one; print(one.__cached__)", home / "python" / "lib" / "pyspark.zip")
    assert Path(said.strip()).resolve().is_relative_to(Path(pyspark.__file__).parent.resolve())
    assert (home / "bin" / "spark-submit").is_file() and list((home / "jars").glob("spark-core_*.jar"))


def test_data_source_loads_no_heavy_modules() -> None:
    heavy = {"polars", "sqlglot", "confluent_kafka", "redis", "duckdb", "pandas", "structlog"}
    assert loaded("dsms.spark.source", heavy) == "[]"


def test_worker_modules_load_no_planner() -> None:
    """Otherwise the planner would take 15 MB in each process of an executor."""
    planner = {"sqlglot", "dsms.sql.binder.bind", "dsms.planner.physical.lower", "dsms.planner.optimizer.optimize"}
    assert loaded("dsms.runtime.batching.planner", planner) == "[]"
    assert loaded("dsms.runtime.stages.target_task", planner) == "[]"


def test_the_coordinator_loads_no_spark_and_not_what_answers_or_loads_once() -> None:
    once = {"duckdb", "pyarrow.parquet", "pyarrow.csv", "sqlalchemy"}
    assert loaded("dsms.coordinator.__main__", {"pyspark", "pandas"} | once) == "[]"


def test_arrow_allocates_as_the_c_library_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """One allocator cannot use the free memory that another one keeps."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert run("import pyarrow; print(pyarrow.default_memory_pool().backend_name)").strip() == "system"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are told by name in /proc, which only Linux has")
def test_workers_are_forked_before_anything_computes() -> None:
    """Threads of a pool that was started before the fork would be missing in the workers."""
    imports = "; ".join(f"import {name}" for name in (*worker_daemon.MODULES, "pyspark.worker"))
    comms = "Path('/proc/self/task').glob('*/comm')"
    names = run(f"from pathlib import Path; {imports}; print(*(one.read_text() for one in {comms}))").split()
    assert any(name.startswith("python") for name in names)
    assert [name for name in names if name.startswith(("polars-", "tokio")) and name != "polars-ooc-clea"] == []


def test_spark_home_has_only_the_jars_that_an_executor_needs(tmp_path: Path) -> None:
    kept = {path.name for path in (linked_home(tmp_path / "home") / "jars").iterdir()}
    every = {path.name for path in (Path(pyspark.__file__).parent / "jars").iterdir()}
    assert kept < every and len(kept) > len(every) // 2
    for needed in ("spark-core", "spark-sql_", "spark-catalyst", "scala-library", "arrow-vector", "hadoop-client-api"):
        assert any(name.startswith(needed) for name in kept)
    for other in ("spark-mllib", "spark-hive", "kubernetes-client", "scala-compiler"):
        assert not any(name.startswith(other) for name in kept)
