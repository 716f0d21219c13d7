"""What users unit-test their queries with."""

from dsms.testing.local_session import LocalSession

__all__ = ["LocalSession"]
