"""Shortcuts that use internals of PySpark or the JVM to save time or memory. Each has a file and a switch.

Everything works without them. `DSMS_PLAIN_SPARK=1` turns all of them off, `DSMS_PLAIN_SPARK=worker_daemon,spark_home`
only the named ones. `tests/dsms/spark/compat` has a canary test for each of them, which fails if the internals that it
uses change.
"""
