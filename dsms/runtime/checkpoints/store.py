"""The checkpoints of a fragment in an object store.

<cluster>/<fragment>/checkpoints/<id>.json   a checkpoint; written last, so the objects that it names exist
<cluster>/<fragment>/runs/<run>              a run, byte for byte as in Redis; copied once, named by many checkpoints
<cluster>/catalogs/<sha256>                  a copy of the catalog's log
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import structlog

from connectors.objects.store import ObjectStore
from dsms.runtime.checkpoints.checkpoint import Checkpoint, Copy, decode_checkpoint, encode_checkpoint
from operators.core.errors import ExternalError

log = structlog.get_logger()
_DOCUMENT = ".json"


@dataclass(frozen=True)
class FoundCheckpoints:
    """The readable checkpoints, the newest first, and the reasons why others cannot be read, by name."""

    checkpoints: tuple[Checkpoint, ...]
    damaged: dict[str, str]


class CheckpointStore:
    """Reads and writes the checkpoints of one fragment."""

    def __init__(self, objects: ObjectStore, cluster: str, fragment: str) -> None:
        self._objects, self._cluster, self._fragment = objects, cluster, fragment
        self._folder = f"{cluster}/{fragment}"

    def find(self) -> FoundCheckpoints:
        """All checkpoints of the fragment."""
        found, damaged = list[Checkpoint](), dict[str, str]()
        for name in sorted(self._objects.names(f"{self._folder}/checkpoints"), reverse=True):
            short = name.rpartition("/")[2].removesuffix(_DOCUMENT)
            try:
                found.append(decode_checkpoint(b"".join(self._objects.read(name)), short))
            except ExternalError as error:
                if error.retryable:
                    raise
                if name not in self._objects.names(f"{self._folder}/checkpoints"):
                    continue  # an executor has removed it meanwhile, after making newer ones
                damaged[short] = str(error)
        return FoundCheckpoints(tuple(found), damaged)

    def copied(self, checkpoints: Iterable[Checkpoint]) -> dict[str, Copy]:
        """The copies of runs that these checkpoints name and that exist with the right size, by run."""
        existing = self._objects.names(f"{self._folder}/runs")
        named = {run: copy for checkpoint in checkpoints for run, copy in checkpoint.runs.items()}
        return {run: copy for run, copy in named.items() if existing.get(copy.name) == copy.bytes}

    def run_name(self, run: str) -> str:
        """The name of the copy of a run."""
        return f"{self._folder}/runs/{run}"

    def copy_run(self, run: str, pieces: Iterable[bytes]) -> Copy:
        """Copies a run."""
        name = self.run_name(run)
        written = self._objects.write(name, pieces)
        return Copy(name, written.bytes, written.sha256)

    def copy_catalog(self, body: bytes) -> Copy:
        """Copies the catalog's log, unless an equal copy exists."""
        checksum = hashlib.sha256(body).hexdigest()
        name = f"{self._cluster}/catalogs/{checksum}"
        if self._objects.names(f"{self._cluster}/catalogs").get(name) != len(body):
            self._objects.write(name, [body])
        return Copy(name, len(body), checksum)

    def write(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint. All copies that it names must exist."""
        self._objects.write(f"{self._folder}/checkpoints/{checkpoint.id}{_DOCUMENT}", [encode_checkpoint(checkpoint)])

    def read(self, copy: Copy) -> Iterator[bytes]:
        """Yields the pieces of a copy. Raises ExternalError after the last one if they are not what was written."""
        digest, size = hashlib.sha256(), 0
        for piece in self._objects.read(copy.name):
            digest.update(piece)
            size += len(piece)
            yield piece
        if (size, digest.hexdigest()) != (copy.bytes, copy.sha256):
            raise ExternalError(f'"{copy.name}" is damaged: its checksum differs', retryable=False)

    def clean(self, expired: Iterable[Checkpoint]) -> None:
        """Removes checkpoints, and the copies of runs that no remaining checkpoint names, such as those of an executor
        that died while copying. If a document cannot be read, all copies stay: another version may have written it."""
        self._objects.delete(f"{self._folder}/checkpoints/{old.id}{_DOCUMENT}" for old in expired)
        left = self.find()
        if left.damaged:
            return
        kept = {copy.name for checkpoint in left.checkpoints for copy in checkpoint.runs.values()}
        self._objects.delete(sorted(self._objects.names(f"{self._folder}/runs").keys() - kept))

    def verify(self, checkpoint: Checkpoint) -> list[str]:
        """Reads every copy of a checkpoint; returns what is wrong with them."""
        wrong = []
        for copy in _copies(checkpoint):
            try:
                for _ in self.read(copy):
                    pass
            except ExternalError as error:
                if error.retryable:
                    raise
                wrong.append(str(error))
        return wrong


def _copies(checkpoint: Checkpoint) -> list[Copy]:
    return [checkpoint.catalog, *checkpoint.runs.values()]


def fragments(objects: ObjectStore, cluster: str) -> list[str]:
    """The fragments of a cluster that have checkpoints."""
    parts = (name.split("/") for name in objects.names(cluster))
    return sorted({part[1] for part in parts if len(part) == 4 and part[2] == "checkpoints"})
