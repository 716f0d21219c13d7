"""Hides pandas from a process. pyarrow and PySpark import it if it is installed, although the project does not need it.

An import finder hides the package. Before PySpark creates a function over Arrow batches, it checks that pandas is
installed; this check is replaced by one that always passes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec

from dsms.spark.compat.shortcut import Shortcut

SHORTCUT = Shortcut("hidden_pandas", "0.9 CPU s of an executor's start and 77 MB of an executor")
#: PySpark's module, and the function in it that is replaced.
CHECK = ("pyspark.sql.pandas.functions", "require_minimum_pandas_version")


class _Hidden:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for pandas; the finders after this one find other modules."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def without_pandas(environ: Mapping[str, str]) -> None:
    """Hides pandas from this process, unless it has been imported already."""
    if SHORTCUT.on(environ) and _Hidden not in sys.meta_path:
        sys.meta_path.insert(0, _Hidden)


def spark_without_pandas(environ: Mapping[str, str]) -> None:
    """Lets PySpark create functions over Arrow batches without pandas."""
    if SHORTCUT.on(environ):
        module, function = CHECK
        setattr(importlib.import_module(module), function, lambda: None)
