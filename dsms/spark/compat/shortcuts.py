"""All shortcuts that use internals of Spark, by name; the docstring of the package says how to turn them off."""

from __future__ import annotations

from dsms.spark.compat import (
    class_archive,
    helper_processes,
    hidden_pandas,
    scratch_checkpoints,
    spark_home,
    worker_daemon,
)

SHORTCUTS = {
    module.SHORTCUT.name: module.SHORTCUT
    for module in (
        class_archive,
        helper_processes,
        hidden_pandas,
        scratch_checkpoints,
        spark_home,
        worker_daemon,
    )
}
