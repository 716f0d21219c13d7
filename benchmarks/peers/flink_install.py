"""Flink SQL in a separate environment, which is installed once into the cache directory."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from dsms.local.artifacts import Report, Resolver, cache_dir
from dsms.local.java import find_java
from dsms.local.versions import Artifact

VERSION = "2.3.0"
CONNECTORS = (
    Artifact("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),
    Artifact("org.apache.flink", "flink-sql-avro", VERSION),
)


@dataclass(frozen=True)
class FlinkInstall:
    """The Python that has PyFlink, and the connector jars."""

    python: Path
    jars: tuple[Path, ...]


def flink_install(report: Report) -> FlinkInstall:
    """The installation. Missing parts are downloaded first, about 700 MB in all."""
    cache = cache_dir(os.environ)
    python = cache / "flink-venv" / "bin" / "python"
    done = cache / "flink-venv" / f".flink-{VERSION}"
    if not done.exists():
        report(f"installing apache-flink {VERSION} into {cache} (once, a few minutes)")
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"apache-flink=={VERSION}"], check=True)
        done.touch()
    jars = cache / "jars" / f"flink-connectors-{VERSION}"
    if not jars.is_dir():
        report("fetching flink's connectors")
        Resolver(find_java(os.environ), cache, os.environ)._fetch(CONNECTORS, jars, report)
    return FlinkInstall(python, tuple(sorted(jars.glob("flink-sql-*.jar"))))
