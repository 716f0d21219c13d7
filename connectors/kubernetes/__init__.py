"""Kubernetes: the Lease by which the leader is elected."""

from connectors.kubernetes.lease import Lease

__all__ = ["Lease"]
