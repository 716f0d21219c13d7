"""A canary for each shortcut: it fails if Spark no longer has the internals that the shortcut relies on.

`integration/test_lifecycle.py` tests that the shortcuts work, `integration/test_plain_spark.py` that everything works
without them.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from dsms.spark.compat import helper_processes, hidden_pandas, scratch_checkpoints, worker_daemon
from dsms.spark.compat.shortcut import TESTED_VERSIONS, untested
from dsms.spark.compat.shortcuts import SHORTCUTS
from dsms.spark.compat.spark_home import linked_home

HOME = Path(pyspark.__file__).parent


def classes(jar: str) -> set[str]:
    """The names of the entries in Spark's jar whose name begins with `jar`."""
    (path,) = HOME.glob(f"jars/{jar}_*.jar")
    return set(zipfile.ZipFile(path).namelist())


def hidden_pandas_canary() -> None:
    """PySpark checks for pandas with its own function, which has the name that the shortcut replaces."""
    module, function = hidden_pandas.CHECK
    assert f"{function}()" in inspect.getsource(importlib.import_module(module))


def helper_processes_canary() -> None:
    """`SparkEnv` has the field of worker factories, and the names of the helpers' modules begin as expected."""
    spark = zipfile.ZipFile(next(HOME.glob("jars/spark-core_*.jar")))
    assert b"pythonWorkers" in spark.read("org/apache/spark/SparkEnv.class")
    assert importlib.util.find_spec(helper_processes.HELPERS + "plan_data_source_read") is not None


def spark_home_canary(tmp_path: Path | None = None) -> None:
    """Spark's scripts look for its Python package under the name of a zip."""
    assert (HOME / "python" / "lib" / "pyspark.zip").is_file()
    assert callable(linked_home)


def class_archive_canary() -> None:
    """The archive is an option of the JVM, not of Spark. A JVM that cannot use an archive runs without it."""


def scratch_checkpoints_canary() -> None:
    """The configured manager of checkpoint files is a class in Spark."""
    name = scratch_checkpoints.SETTINGS["spark.sql.streaming.checkpointFileManagerClass"]
    assert f"{name.replace('.', '/')}.class" in classes("spark-sql")


def worker_daemon_canary() -> None:
    """Spark's daemon has the loop that this project's daemon runs, and its imports exist."""
    daemon = importlib.import_module("pyspark.daemon")
    assert "worker_main" in inspect.getsource(daemon.manager) or "worker" in inspect.getsource(daemon.manager)
    assert [name for name in worker_daemon.MODULES if importlib.util.find_spec(name) is None] == []


CANARIES: dict[str, Callable[[], None]] = {
    "class_archive": class_archive_canary,
    "helper_processes": helper_processes_canary,
    "hidden_pandas": hidden_pandas_canary,
    "scratch_checkpoints": scratch_checkpoints_canary,
    "spark_home": spark_home_canary,
    "worker_daemon": worker_daemon_canary,
}


def test_every_trick_has_a_canary_and_says_what_it_saves() -> None:
    assert CANARIES.keys() == SHORTCUTS.keys()
    assert all(shortcut.saves and shortcut.name == name for name, shortcut in SHORTCUTS.items())


def test_each_trick_has_a_file_of_its_name() -> None:
    package = Path(hidden_pandas.__file__).parent
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "shortcut", "shortcuts"}
    assert files == SHORTCUTS.keys()


@pytest.mark.parametrize("name", sorted(CANARIES))
def test_internals_that_a_trick_relies_on_exist(name: str) -> None:
    CANARIES[name]()


def test_the_installed_spark_is_one_that_was_tried() -> None:
    assert not untested(pyspark.__version__), f"try every shortcut, then add {pyspark.__version__} to {TESTED_VERSIONS}"


def test_workers_find_no_pandas() -> None:
    program = (
        "import sys, pyarrow as pa, dsms.runtime.stages.target_task; "
        "from dsms.spark.compat.hidden_pandas import without_pandas; "
        "without_pandas({}); pa.array(['a']); pa.schema([('a', pa.int64())]).empty_table(); "
        "assert 'pandas' not in sys.modules\n"
        "try: import pandas\n"
        "except ModuleNotFoundError: pass\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
