"""The documents of a cluster in memory."""

from __future__ import annotations

from connectors.memory.documents import Documents
from connectors.state.cluster import LEASE_MS, STORY_MS

_LEASE_S = LEASE_MS / 1000


class MemoryCluster:
    """Implements `connectors.state.cluster.ClusterState`."""

    def __init__(self, documents: Documents, cluster: str) -> None:
        self.name, self._documents = cluster, documents

    def catalog(self) -> bytes | None:
        """The copy of the catalog."""
        return self._documents.get("catalog")

    def set_catalog(self, body: bytes) -> None:
        """Replaces the copy of the catalog."""
        self._documents.set("catalog", body)

    def assignments(self) -> bytes | None:
        """The assignments of fragments to executors."""
        return self._documents.get("assignments")

    def set_assignments(self, body: bytes) -> None:
        """Replaces the assignments."""
        self._documents.set("assignments", body)

    def write_sign_of_life(self, executor: str, body: bytes) -> None:
        """Writes a sign of life of an executor; it expires with the executor's lease."""
        self._documents.set(f"executor:{executor}", body, _LEASE_S)

    def end_lease(self, executor: str) -> None:
        """Ends an executor's lease at once."""
        self._documents.delete(f"executor:{executor}")

    def executors(self) -> dict[str, bytes]:
        """The last signs of life of the executors that are alive."""
        return self._all("executor:")

    def write_report(self, fragment: str, body: bytes) -> None:
        """Writes the report of a fragment; it expires with the lease time unless it is renewed."""
        self._documents.set(f"report:{fragment}", body, _LEASE_S)

    def reports(self) -> dict[str, bytes]:
        """The last reports by fragment."""
        return self._all("report:")

    def tuning(self, executor: str) -> bytes | None:
        """The settings of an executor that ALTER EXECUTOR has set."""
        return self._documents.get(f"tuning:{executor}")

    def set_tuning(self, executor: str, body: bytes) -> None:
        """Replaces the settings of an executor."""
        self._documents.set(f"tuning:{executor}", body)

    def search(self, fragment: str) -> bytes | None:
        """The state of a fragment's search for the query that crashes its workers."""
        return self._documents.get(f"search:{fragment}")

    def set_search(self, fragment: str, body: bytes) -> None:
        """Replaces the state of a fragment's search."""
        self._documents.set(f"search:{fragment}", body)

    def story(self, fragment: str, executor: str) -> bytes | None:
        """The story of a fragment on an executor."""
        return self._documents.get(f"story:{fragment}:{executor}")

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        """Replaces the story of a fragment on an executor; it expires after a day unless it is renewed."""
        self._documents.set(f"story:{fragment}:{executor}", body, STORY_MS / 1000)

    def stories(self, fragment: str) -> dict[str, bytes]:
        """The stories of a fragment, by executor."""
        return self._all(f"story:{fragment}:")

    def checkpoint_request(self) -> int:
        """The number of the last request for checkpoints; 0 without one."""
        return int(self._documents.get("checkpoint-request") or 0)

    def request_checkpoint(self, number: int) -> None:
        """Asks all executors for checkpoints; a later request has a greater number."""
        self._documents.set("checkpoint-request", str(number).encode())

    def place(self, name: str) -> str:
        """The name of a document."""
        return name

    def ping(self) -> None:
        """Memory always answers."""

    def _all(self, kind: str) -> dict[str, bytes]:
        return {name.removeprefix(kind): each.body for name, each in self._documents.all(kind).items()}
