"""Kubernetes: the Lease that says who leads."""

from connectors.kubernetes.lease import KubernetesLease, Lease

__all__ = ["KubernetesLease", "Lease"]
