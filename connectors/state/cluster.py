"""The documents that coordinator and executors exchange through the store of state."""

from __future__ import annotations

from typing import Protocol

#: An executor without a sign of life for this long is considered dead.
LEASE_MS = 4_000
#: The story of a fragment on an executor is kept for a day after the executor has last written it.
STORY_MS = 24 * 60 * 60 * 1000


class ClusterState(Protocol):
    """The documents of a cluster: the catalog copy, assignments, signs of life, reports and settings. All of them may
    be lost: the coordinator restores them from Kafka. The store does not read their content. Raises ExternalError while
    it is unavailable."""

    @property
    def name(self) -> str:
        """The name of the cluster."""
        ...

    def catalog(self) -> bytes | None:
        """The copy of the catalog."""
        ...

    def set_catalog(self, body: bytes) -> None:
        """Replaces the copy of the catalog."""
        ...

    def assignments(self) -> bytes | None:
        """The assignments of fragments to executors."""
        ...

    def set_assignments(self, body: bytes) -> None:
        """Replaces the assignments."""
        ...

    def write_sign_of_life(self, executor: str, body: bytes) -> None:
        """Writes a sign of life of an executor; it expires after `LEASE_MS` unless it is renewed."""
        ...

    def end_lease(self, executor: str) -> None:
        """Ends an executor's lease at once."""
        ...

    def executors(self) -> dict[str, bytes]:
        """The last signs of life of the executors that are alive, by name."""
        ...

    def write_report(self, fragment: str, body: bytes) -> None:
        """Writes the report of a fragment; it expires after `LEASE_MS` unless it is renewed."""
        ...

    def reports(self) -> dict[str, bytes]:
        """The last reports that have not expired, by fragment."""
        ...

    def tuning(self, executor: str) -> bytes | None:
        """The settings of an executor that ALTER EXECUTOR has set."""
        ...

    def set_tuning(self, executor: str, body: bytes) -> None:
        """Replaces the settings of an executor, which last until the store loses them."""
        ...

    def search(self, fragment: str) -> bytes | None:
        """The state of a fragment's search for the query that crashes its workers."""
        ...

    def set_search(self, fragment: str, body: bytes) -> None:
        """Replaces the state of a fragment's search."""
        ...

    def story(self, fragment: str, executor: str) -> bytes | None:
        """The story of a fragment on an executor."""
        ...

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        """Replaces the story of a fragment on an executor; it expires after `STORY_MS` unless it is renewed."""
        ...

    def stories(self, fragment: str) -> dict[str, bytes]:
        """The stories of a fragment that have not expired, by executor."""
        ...

    def checkpoint_request(self) -> int:
        """The number of the last request for checkpoints; 0 without one."""
        ...

    def request_checkpoint(self, number: int) -> None:
        """Asks all executors for checkpoints; a later request has a greater number."""
        ...

    def place(self, name: str) -> str:
        """The location of a document such as "catalog", "executor:NAME" or "report:FRAGMENT", as alarms name it."""
        ...

    def ping(self) -> None:
        """Raises ExternalError unless the store answers."""
        ...
