"""The process that Spark forks Python workers from, all imported: they start at once and share its pages.

Spark's own forks first and lets each worker import, because a library may start threads. Ours start some that only look
after memory (jemalloc's, which mind forks, and Polars' cleaner of spilled data, which spills nothing here); the pools
that compute start with the first computation, which is in a worker.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from dsms.spark.compat.hidden_pandas import without_pandas
from dsms.spark.compat.trick import Trick

TRICK = Trick("worker_daemon", "0.8 s of imports for each worker, and some 60 MB of pages that workers share")
#: This module, as Spark is told to start it.
MODULE = "dsms.spark.compat.worker_daemon"

#: What source and target tasks run, and what those that read Avro ask for schemas; what they and libraries would import
#: when they first need it. The worker module itself is named by Spark.
MODULES = (
    "dsms.runtime.stages.source_task",
    "dsms.runtime.stages.target_task",
    "urllib3",
    "dsms.spark.source",
    "pyspark.sql.worker.plan_data_source_read",
    "numpy.ma",
    "encodings.idna",
)


def main() -> None:
    """Imports, and serves Spark until it closes the pipe."""
    from pyspark import daemon

    for name in (*sys.argv[1:2], *MODULES):
        importlib.import_module(name)
    without_pandas(os.environ)
    gc.collect()
    gc.freeze()  # what is never looked at by the collector stays one copy for all workers
    daemon.manager()


if __name__ == "__main__":
    main()
