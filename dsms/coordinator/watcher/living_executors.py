"""The executors that live."""

from __future__ import annotations

import msgspec

from connectors.redis.cluster_state import ClusterState
from dsms.scheduler.leases import ExecutorStatus


def living(cluster: ClusterState) -> dict[str, ExecutorStatus]:
    """What the executors last said of themselves, by name."""
    return {name: msgspec.json.decode(body, type=ExecutorStatus) for name, body in cluster.executors().items()}
