"""Tricks that use internals of PySpark or the JVM to save time or memory: one file each, with a switch.

Everything works without any of them. `DSMS_PLAIN_SPARK=1` turns all off, `DSMS_PLAIN_SPARK=worker_daemon,spark_home`
only those named. `tests/dsms/spark/compat` has a canary for each, which fails if the internals that it uses change.
"""
