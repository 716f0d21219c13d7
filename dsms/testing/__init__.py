"""Tools to unit-test queries."""

from dsms.testing.local_session import LocalSession

__all__ = ["LocalSession"]
