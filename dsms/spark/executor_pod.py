"""The entry point of a Spark executor that has its own pod: `python -m dsms.spark.executor_pod executor`.

Spark calls it like the entry point of its own image: with this argument, and with environment variables that describe
the executor.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
#: The options of the backend, and the environment variables with their values.
_OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environ: Mapping[str, str], jars: Path) -> list[str]:
    """The command line of the JVM for the executor that the environment variables describe.

    >>> described = dict.fromkeys(_OPTIONS.values(), "x") | {"SPARK_JAVA_OPT_0": "-Da=b"}
    >>> command({**described, "SPARK_EXECUTOR_MEMORY": "512m"}, Path("/jars"))[:6]
    ['java', '-Da=b', '-Xms512m', '-Xmx512m', '-cp', '/jars/*']
    """
    numbered = {int(found[1]): value for name, value in environ.items() if (found := _JAVA_OPTION.fullmatch(name))}
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    heap = [f"-Xms{memory}", f"-Xmx{memory}"]
    described = [part for option, name in _OPTIONS.items() for part in (option, environ[name])]
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    return [java, *(numbered[at] for at in sorted(numbered)), *heap, "-cp", f"{jars}/*", _BACKEND, *described]


def main() -> None:
    """Replaces this process by the JVM."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    argv = command(os.environ, Path(spark.origin).parent / "jars")
    sys.stdout.flush()
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
