"""Recovery of a fragment from its checkpoints, after Redis has lost its state."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog

from connectors.kafka.client.config import KafkaSettings
from connectors.state.store import RunStore
from dsms.runtime.checkpoints.checkpoint import Checkpoint, Copy, Needs, best_first, why_unusable
from dsms.runtime.checkpoints.logs import topic_facts
from dsms.runtime.checkpoints.store import CheckpointStore
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: How many runs are copied back concurrently.
_THREADS = 4


class Recovery:
    """Puts the state of checkpoints back into Redis. Raises ExternalError while the object store cannot be reached, so
    that the fragment waits: a transient failure must not cost the state."""

    def __init__(self, store: CheckpointStore, runs: RunStore, kafka: KafkaSettings, fragment: str) -> None:
        self._store, self._runs, self._kafka, self._fragment = store, runs, kafka, fragment

    def restore(
        self, incomplete: Manifest | None, published: Published, targets: int | None, needs: Needs
    ) -> Manifest | None:
        """Restores runs, and returns the manifest to resume from; None if no checkpoint is usable.

        `incomplete` is a manifest that is valid except for missing runs. It is used if copies of these runs exist,
        otherwise the manifest of the best usable checkpoint.
        """
        found = self._store.find()
        for name, reason in found.damaged.items():
            log.warning("a checkpoint cannot be used", fragment=self._fragment, checkpoint=name, reason=reason)
        if incomplete is not None and self._completed(incomplete, found.checkpoints):
            return incomplete
        topics = {topic.name for checkpoint in found.checkpoints for topic in checkpoint.topics.values()}
        logs = topic_facts(self._kafka, topics) if found.checkpoints else None
        for checkpoint in best_first(found.checkpoints, needs.queries):
            assert logs is not None
            unfit = why_unusable(checkpoint, logs, published, targets, needs) or self._restored(
                checkpoint.runs, checkpoint.id
            )
            if unfit is None:
                return checkpoint.state
            log.warning("a checkpoint cannot be used", fragment=self._fragment, checkpoint=checkpoint.id, reason=unfit)
        return None

    def _completed(self, manifest: Manifest, checkpoints: Iterable[Checkpoint]) -> bool:
        copies = self._store.copied(checkpoints)
        missing = self._runs.missing(manifest.names())
        if not missing <= copies.keys():
            return False
        return self._restored({name: copies[name] for name in missing}, "of several") is None

    def _restored(self, copies: dict[str, Copy], checkpoint: str) -> str | None:
        """Copies missing runs back; returns why that is not possible, or None on success."""
        began = time.monotonic()
        missing = self._runs.missing(copies)
        try:
            with ThreadPoolExecutor(_THREADS, "restore") as threads:
                for done in [threads.submit(self._restore, name, copies[name]) for name in sorted(missing)]:
                    done.result()
        except ExternalError as error:
            if error.retryable:
                raise
            return str(error)
        log.info(
            "state was restored from a checkpoint",
            fragment=self._fragment,
            checkpoint=checkpoint,
            runs=len(missing),
            bytes=sum(copies[name].bytes for name in missing),
            seconds=round(time.monotonic() - began, 3),
        )
        return None

    def _restore(self, name: str, copy: Copy) -> None:
        self._runs.restore(name, copy.bytes, self._store.read(copy))
