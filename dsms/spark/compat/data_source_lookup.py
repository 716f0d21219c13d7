"""Spark does not look for data sources in all installed packages: the driver's Python is set to one that does not
exist.

For the lookup the JVM starts the driver's Python; if there is no such command, it goes on without. Our data source is
registered by the session, and workers run another Python.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from dsms.spark.compat.trick import Trick

TRICK = Trick("data_source_lookup", "0.6 s in two processes at the start of a session")
_NO_COMMAND = "no-data-sources-to-look-for"


def without_lookup(environ: MutableMapping[str, str]) -> None:
    """Sets the driver's Python to one that does not exist."""
    if TRICK.on(environ):
        environ["PYSPARK_DRIVER_PYTHON"] = _NO_COMMAND


def looked_up(environ: Mapping[str, str]) -> bool:
    """Whether Spark looks for data sources.

    >>> environ = {}
    >>> without_lookup(environ)
    >>> looked_up(environ), looked_up({})
    (False, True)
    """
    return environ.get("PYSPARK_DRIVER_PYTHON") != _NO_COMMAND
