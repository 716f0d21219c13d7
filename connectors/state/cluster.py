"""The documents that coordinator and executors exchange through the store of state."""

from __future__ import annotations

from connectors.state.store import DocumentStore

#: An executor that has not renewed its lease for this long is considered dead.
LEASE_MS = 4_000
#: The story of a fragment on an executor is kept for a day after the executor has last written it.
STORY_MS = 24 * 60 * 60 * 1000
#: What the scheduler has measured is kept for a week after the fragment's last epoch.
METADATA_MS = 7 * 24 * 60 * 60 * 1000


class ClusterState:
    """The documents of a cluster: the catalog copy, assignments, statuses of executors, reports, settings and the
    scheduler's metadata. All of them may be lost: the coordinator restores them from Kafka, or executors write them
    again. Raises ExternalError while the store is unavailable."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self._documents.cluster

    def catalog(self) -> bytes | None:
        """The copy of the catalog."""
        return self._documents.get("catalog")

    def set_catalog(self, body: bytes) -> None:
        """Replaces the copy of the catalog."""
        self._documents.set("catalog", body, "writing the catalog copy")

    def assignments(self) -> bytes | None:
        """The assignments of fragments to executors."""
        return self._documents.get("assignments")

    def set_assignments(self, body: bytes) -> None:
        """Replaces the assignments."""
        self._documents.set("assignments", body, "writing the assignments")

    def renew_lease(self, executor: str, status: bytes) -> None:
        """Writes the status of an executor. The executor is alive until the status expires, after `LEASE_MS`."""
        self._documents.set(f"executor:{executor}", status, "renewing the lease of an executor", LEASE_MS)

    def end_lease(self, executor: str) -> None:
        """Ends an executor's lease at once."""
        self._documents.delete(f"executor:{executor}", "ending the lease of an executor")

    def executors(self) -> dict[str, bytes]:
        """The last statuses of the executors that are alive, by name."""
        return self._documents.expiring("executor:", "reading the statuses of executors")

    def write_report(self, fragment: str, body: bytes) -> None:
        """Writes the report of a fragment; it expires after `LEASE_MS` unless it is renewed."""
        self._documents.set(f"report:{fragment}", body, "writing a report", LEASE_MS)

    def reports(self) -> dict[str, bytes]:
        """The last reports that have not expired, by fragment."""
        return self._documents.expiring("report:", "reading reports")

    def tuning(self, executor: str) -> bytes | None:
        """The settings of an executor that ALTER EXECUTOR has set."""
        return self._documents.get(f"tuning:{executor}")

    def set_tuning(self, executor: str, body: bytes) -> None:
        """Replaces the settings of an executor, which last until the store loses them."""
        self._documents.set(f"tuning:{executor}", body, "writing the settings of an executor")

    def search(self, fragment: str) -> bytes | None:
        """The state of a fragment's search for the query that crashes its workers."""
        return self._documents.get(f"search:{fragment}")

    def set_search(self, fragment: str, body: bytes) -> None:
        """Replaces the state of a fragment's search."""
        self._documents.set(f"search:{fragment}", body, "writing the search of a fragment")

    def metadata(self, fragment: str) -> bytes | None:
        """What the scheduler and the load shedder of a fragment have measured."""
        return self._documents.get(f"metadata:{fragment}")

    def set_metadata(self, fragment: str, body: bytes) -> None:
        """Replaces the metadata of a fragment; it expires after `METADATA_MS` unless it is renewed."""
        self._documents.set(f"metadata:{fragment}", body, "writing the scheduler's metadata", METADATA_MS)

    def story(self, fragment: str, executor: str) -> bytes | None:
        """The story of a fragment on an executor."""
        return self._documents.get(f"story:{fragment}:{executor}")

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        """Replaces the story of a fragment on an executor; it expires after `STORY_MS` unless it is renewed."""
        self._documents.set(f"story:{fragment}:{executor}", body, "writing the story of a fragment", STORY_MS)

    def stories(self, fragment: str) -> dict[str, bytes]:
        """The stories of a fragment that have not expired, by executor."""
        return self._documents.expiring(f"story:{fragment}:", "reading the story of a fragment")

    def checkpoint_request(self) -> int:
        """The number of the last request for checkpoints; 0 without one."""
        body = self._documents.get("checkpoint-request")
        return int(body) if body and body.isdigit() and len(body) < 19 else 0

    def request_checkpoint(self, number: int) -> None:
        """Asks all executors for checkpoints; a later request has a greater number."""
        self._documents.set("checkpoint-request", str(number).encode(), "asking for a checkpoint")

    def place(self, name: str) -> str:
        """The location of a document such as "catalog", "executor:NAME" or "report:FRAGMENT", as alarms name it."""
        return self._documents.place(name)

    def ping(self) -> None:
        """Raises ExternalError unless the store answers."""
        self._documents.ping()
