"""Tools to unit-test queries."""

import operators.core.call_depth
from dsms.testing.local_session import LocalSession

# at import, because Hypothesis complains of tests that change the limit of recursion
operators.core.call_depth.allow_deep_calls()

__all__ = ["LocalSession"]
