"""Tools to unit-test queries."""

import operators.core.recursion
from dsms.testing.local_session import LocalSession

# now, since a test that changes the limit of recursion is found fault with by Hypothesis
operators.core.recursion.allow_deep_calls()

__all__ = ["LocalSession"]
