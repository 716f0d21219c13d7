"""The process from which Spark forks Python workers. It has already imported all modules.

So workers start immediately, and share its memory pages. Spark's own daemon forks before anything is imported, because
a library may start threads, which do not survive a fork. The libraries that are imported here start only threads that
manage memory: those of jemalloc, which handle forks, and Polars' cleaner of spilled data, which has nothing to do.
Thread pools start with the first computation, which takes place in a worker.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from dsms.spark.compat.hidden_pandas import without_pandas
from dsms.spark.compat.shortcut import Shortcut

SHORTCUT = Shortcut("worker_daemon", "1.4 s of an executor's start, 1.5 CPU s and 86 MB of an executor")
#: The name of this module, which is passed to Spark.
MODULE = "dsms.spark.compat.worker_daemon"

#: The modules of source and target tasks, the client with which they fetch Avro schemas, and modules that these would
#: import on first use. Spark itself passes the name of the worker module.
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
    """Imports the modules, and serves Spark until Spark closes the pipe."""
    from pyspark import daemon

    for name in (*sys.argv[1:2], *MODULES):
        importlib.import_module(name)
    without_pandas(os.environ)
    gc.collect()
    gc.freeze()  # pages that the collector never touches stay shared by all workers
    daemon.manager()


if __name__ == "__main__":
    main()
