"""Tools to unit-test queries. `simulate` is imported when it is first used, because it needs the whole service."""

import importlib
from typing import TYPE_CHECKING

import operators.core.call_depth
from dsms.testing.local_session import LocalSession

if TYPE_CHECKING:
    from dsms.testing.histories import simulate

# at import, because Hypothesis complains of tests that change the limit of recursion
operators.core.call_depth.allow_deep_calls()

__all__ = ["LocalSession", "simulate"]


def __getattr__(name: str) -> object:
    if name == "simulate":
        return importlib.import_module("dsms.testing.histories").simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
