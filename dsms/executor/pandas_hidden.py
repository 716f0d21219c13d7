"""pyarrow without pandas: its first array of Python values imports pandas, 0.2 CPU s and 40 MB that no worker needs."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _Hidden:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raises for pandas; other modules are found by the finders after this one."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


@lru_cache(maxsize=1)
def without_pandas() -> None:
    """pyarrow looks for pandas once in a process: what it finds now is that there is none."""
    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Hidden)
