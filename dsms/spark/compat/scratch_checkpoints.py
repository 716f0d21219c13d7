"""Makes Spark's checkpoints cheaper: without checksum files, and without a process that changes the mode of each file.

Spark's checkpoint of a stream is not needed after a crash, because recovery reads the manifest. The classes that are
set here belong to Spark and Hadoop, but are not the defaults for local files.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsms.spark.compat.shortcut import Shortcut

SHORTCUT = Shortcut("scratch_checkpoints", "some 50 ms of the fixed cost of a batch")
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
SETTINGS = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings for a session; empty if the shortcut is switched off.

    >>> settings({"DSMS_PLAIN_SPARK": "1"})
    {}
    """
    return dict(SETTINGS) if SHORTCUT.on(environ) else {}
