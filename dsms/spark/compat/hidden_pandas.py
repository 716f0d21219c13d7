"""Processes without pandas: pyarrow and PySpark import it if it is installed, though nothing here needs it.

A finder hides the package from the process. PySpark checks that pandas is installed before it makes a function over
Arrow batches; that check is replaced by one that passes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec

from dsms.spark.compat.trick import Trick

TRICK = Trick("hidden_pandas", "0.9 CPU s of an executor's start and 77 MB of an executor")
#: PySpark's module, and the function in it that is replaced.
CHECK = ("pyspark.sql.pandas.functions", "require_minimum_pandas_version")


class _Hidden:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raises for pandas; other modules are found by the finders after this one."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def without_pandas(environ: Mapping[str, str]) -> None:
    """Hides pandas from this process, unless it has been imported already."""
    if TRICK.on(environ) and _Hidden not in sys.meta_path:
        sys.meta_path.insert(0, _Hidden)


def spark_without_pandas(environ: Mapping[str, str]) -> None:
    """Lets PySpark make functions over Arrow batches without pandas."""
    if TRICK.on(environ):
        module, function = CHECK
        setattr(importlib.import_module(module), function, lambda: None)
