"""Processes without pandas: pyarrow and PySpark import it where it is installed, 0.2 CPU s and 30 MB for nothing."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec


class _Hidden:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raises for pandas; other modules are found by the finders after this one."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def without_pandas() -> None:
    """From now on this process finds no pandas, unless it has imported it already."""
    if _Hidden not in sys.meta_path:
        sys.meta_path.insert(0, _Hidden)


def spark_without_pandas() -> None:
    """PySpark asks for pandas before it makes a function over Arrow batches, which needs none: it asks no more."""
    functions = importlib.import_module("pyspark.sql.pandas.functions")
    functions.require_minimum_pandas_version = lambda: None  # type: ignore[attr-defined]
