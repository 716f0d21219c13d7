"""What reaches into PySpark's or the JVM's internals to save time or memory: one file a trick, each with a switch.

Everything works without any of them. `DSMS_PLAIN_SPARK=1` turns all off, `DSMS_PLAIN_SPARK=worker_daemon,spark_home`
those named. `tests/dsms/spark/compat` has a canary for each, which fails when the internals that it relies on change.
"""
