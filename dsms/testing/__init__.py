"""Tools to unit-test queries."""

from dsms.testing.local_session import LocalSession
from operators.core.recursion import allow_deep_calls

allow_deep_calls()  # now, since a test that changes the limit of recursion is found fault with by Hypothesis

__all__ = ["LocalSession"]
