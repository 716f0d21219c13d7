"""Kubernetes: the Lease by which the leader is elected, and the number of executors."""

from connectors.kubernetes.lease import Lease

__all__ = ["Lease"]
