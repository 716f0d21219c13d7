"""Kubernetes: the Lease object for leader election, and the number of executor pods."""

from connectors.kubernetes.lease import Lease

__all__ = ["Lease"]
