"""Creates an archive of Spark's classes. The JVM maps it instead of loading classes one by one, so executors start
sooner.

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
from dsms.spark.compat.shortcut import SWITCH, Shortcut
from dsms.spark.compat.spark_home import jars, linked_home

SHORTCUT = Shortcut("class_archive", "5 s of an executor's start and 5.7 CPU s")
#: The options of the JVM. The JVM only plans and moves bytes, so it gets the quick compiler and the serial garbage
#: collector, which leave the cores to the workers. An archive is valid only with the same options.
JVM = "-Djdk.lang.Process.launchMechanism=VFORK -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_TIMEOUT_S = 300
#: The number of archives that are kept; a machine may have several installations.
_KEPT = 3


def installed(environ: Mapping[str, str]) -> Path | None:
    """The directory of the archive for this Java and this Spark, which may not exist yet; None without Java.

    A JVM uses an archive only if the jars of its classes have the same paths and modification times as at its creation.
    """
    if (java := _java_home(environ)) is None:
        return None
    release = java / "release"
    version = release.read_text("utf-8", "replace") if release.is_file() else ""
    jar_times = [(jar.name, jar.stat().st_mtime_ns) for jar in jars()]
    identity = f"{java.resolve()}\n{version}\n{pyspark.__file__}\n{jar_times}\n{JVM}"
    return cache_dir(environ) / "spark" / hashlib.sha256(identity.encode()).hexdigest()[:16]


def archive(environ: Mapping[str, str]) -> Path | None:
    """The path of the archive, which may not exist yet; None without Java."""
    directory = installed(environ)
    return directory and directory / "classes.jsa"


def home(environ: Mapping[str, str]) -> Path | None:
    """The SPARK_HOME with which the archive was created; None if it does not exist."""
    directory = installed(environ)
    return directory / "home" if directory is not None and (directory / "home").is_dir() else None


def options(environ: Mapping[str, str]) -> str:
    """The options with which the JVM uses the archive; "" without an archive.

    >>> options({"PATH": "", "DSMS_CACHE": "/nowhere"})
    ''
    """
    path = archive(environ) if SHORTCUT.on(environ) else None
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
        command = [sys.executable, "-m", "dsms.spark.archived_session", f"{scratch}/session"]
        # with all shortcuts on, so that the archive has the classes for all of them
        unswitched = {name: value for name, value in environ.items() if name != SWITCH}
        env = {**unswitched, "JAVA_TOOL_OPTIONS": "", "DSMS_CLASS_ARCHIVE": f"-XX:ArchiveClassesAtExit={made} {_QUIET}"}
        done = subprocess.run(command, env=env, capture_output=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode == 0 and made.is_file():
            made.rename(target)
    _forget(target.parent)
    return target.is_file()


def _forget(newest: Path) -> None:
    """Removes the remains of an archive that could not be created, and the oldest archives. Their homes (directories of
    links) stay, because an executor may be using one.
    """
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


if __name__ == "__main__":
    if not make(os.environ):
        sys.stderr.write("the archive of Spark's classes could not be made; executors will start a little later\n")
