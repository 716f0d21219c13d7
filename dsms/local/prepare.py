"""Checks and fetches what the services need, once: `python -m dsms.local.prepare`."""

import os
import sys
from collections.abc import Mapping

from dsms.local.artifacts import Report, Resolver, cache_dir
from dsms.local.java import find_java
from dsms.local.redis_server import find_redis
from operators.core.errors import DsmsError


def prepare(environ: Mapping[str, str], report: Report) -> None:
    """Returns when Java, Redis and the broker are there; says what is missing otherwise."""
    java = find_java(environ)
    find_redis(environ)
    Resolver(java, cache_dir(environ), environ).broker_jars(report)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Prepares for this machine's user."""
    try:
        prepare(os.environ, _say)
    except DsmsError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
