"""Spark's classes as an archive that the JVM maps instead of loading them one by one, so that executors start sooner.

`python -m dsms.spark.compat.class_archive` creates the archive, once for each pair of Java and Spark installations. The
archive is optional.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from dsms.local.artifacts import cache_dir
from dsms.spark.compat.spark_home import jars, linked_home
from dsms.spark.compat.trick import SWITCH, Trick

TRICK = Trick("class_archive", "5 s of an executor's start and 5.7 CPU s")
#: The options of the JVM. It only plans and moves bytes, so it gets the quick compiler and the serial garbage
#: collector, which leave the cores to the workers. An archive is valid only with the same options.
JVM = "-Djdk.lang.Process.launchMechanism=VFORK -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_TIMEOUT_S = 300
#: How many archives are kept, because a machine may have several installations.
_KEPT = 3


def installed(environ: Mapping[str, str]) -> Path | None:
    """The directory for this Java and this Spark, which may not exist yet; None if there is no Java.

    A JVM uses an archive only if the jars of its classes still have the paths and modification times from its creation.
    """
    if (java := _java_home(environ)) is None:
        return None
    release = java / "release"
    version = release.read_text("utf-8", "replace") if release.is_file() else ""
    jar_times = [(jar.name, jar.stat().st_mtime_ns) for jar in jars()]
    identity = f"{java.resolve()}\n{version}\n{pyspark.__file__}\n{jar_times}\n{JVM}"
    return cache_dir(environ) / "spark" / hashlib.sha256(identity.encode()).hexdigest()[:16]


def archive(environ: Mapping[str, str]) -> Path | None:
    """The path of the archive, which may not exist yet; None if there is no Java."""
    directory = installed(environ)
    return directory and directory / "classes.jsa"


def home(environ: Mapping[str, str]) -> Path | None:
    """The SPARK_HOME with which the archive was created; None if it does not exist."""
    directory = installed(environ)
    return directory / "home" if directory is not None and (directory / "home").is_dir() else None


def options(environ: Mapping[str, str]) -> str:
    """The options with which the JVM uses the archive; empty if there is none.

    >>> options({"PATH": "", "DSMS_CACHE": "/nowhere"})
    ''
    """
    path = archive(environ) if TRICK.on(environ) else None
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path is not None and path.is_file() else ""


def make(environ: Mapping[str, str]) -> bool:
    """Creates the archive unless it exists; returns whether it exists afterwards."""
    target = archive(environ)
    if target is None or target.is_file():
        return target is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with suppress(OSError):  # another process has created it
            linked_home(Path(scratch) / "home").rename(target.parent / "home")
        made = Path(scratch) / "classes.jsa"
        command = [sys.executable, "-m", "dsms.spark.compat.class_archive", "session", f"{scratch}/session"]
        # with all tricks on, so that the archive has the classes for all of them
        unswitched = {name: value for name, value in environ.items() if name != SWITCH}
        env = {**unswitched, "JAVA_TOOL_OPTIONS": "", "DSMS_CLASS_ARCHIVE": f"-XX:ArchiveClassesAtExit={made} {_QUIET}"}
        done = subprocess.run(command, env=env, capture_output=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode == 0 and made.is_file():
            made.rename(target)
    _forget(target.parent)
    return target.is_file()


def _forget(newest: Path) -> None:
    """Removes the remains of an archive that could not be created, and the oldest archives. Their homes, directories of
    links, stay, because an executor may be running with one."""
    if not (newest / "classes.jsa").is_file():
        shutil.rmtree(newest)
    archives = sorted(newest.parent.glob("*/classes.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        old.unlink()


def _java_home(environ: Mapping[str, str]) -> Path | None:
    """The Java that Spark finds."""
    if environ.get("JAVA_HOME"):
        return Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    return Path(on_path).resolve().parent.parent if on_path else None


def _session(scratch: Path) -> None:
    """Does what an executor does at its start. The JVM writes the archive when it exits."""
    from pyspark import SparkContext

    from dsms.spark.scratch import scratch_directory
    from dsms.spark.session import spark_session
    from dsms.spark.warm_up import warm_up

    with scratch_directory(scratch):
        spark = spark_session("local[2]", scratch, 2)
        warm_up(spark, 2)
        stream = spark.readStream.format("rate").load().repartition(2).writeStream
        query = stream.foreachBatch(_collect).option("checkpointLocation", str(scratch / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
        spark.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_TIMEOUT_S)


def _collect(rows: object, _: int) -> None:
    rows.toArrow()  # type: ignore[attr-defined]


if __name__ == "__main__":
    if sys.argv[1:2] == ["session"]:
        _session(Path(sys.argv[2]))
    elif not make(os.environ):
        sys.stderr.write("the archive of Spark's classes could not be created; executors will start more slowly\n")
