"""Checks that Java and Redis are installed, and fetches the broker: `python -m dsms.local.prepare`."""

import os
import sys
from collections.abc import Mapping

from dsms.local.artifacts import Report, Resolver, cache_dir
from dsms.local.java import find_java
from dsms.local.redis_server import find_redis
from operators.core.errors import DsmsError


def prepare(environ: Mapping[str, str], report: Report) -> None:
    """Checks Java and Redis, and fetches the broker unless it is in the cache. Raises an error that names what is
    missing.
    """
    java = find_java(environ)
    find_redis(environ)
    Resolver(java, cache_dir(environ), environ).broker_jars(report)


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Prepares the services. Returns the exit code: 1 if something is missing."""
    try:
        prepare(os.environ, _print)
    except DsmsError as error:
        _print(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
