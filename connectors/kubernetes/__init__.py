"""Kubernetes: the Lease that says who leads."""

from connectors.kubernetes.lease import Lease

__all__ = ["Lease"]
