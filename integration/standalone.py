"""A Spark standalone cluster on this machine: a master and workers as separate processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from dsms.local.java import find_java
from dsms.local.ports import free_port
from dsms.local.process import ManagedProcess, ProcessSpec
from dsms.local.waiting import wait_until
from dsms.spark.scratch import scratch_directory, temporary_directory

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone(directory: Path, workers: int, cores: int) -> Iterator[str]:
    """Runs a master with the given number of workers and cores of each worker; yields the master's URL."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"spark://{HOST}:{port}"
    options = ("--port", str(port), "--webui-port", str(free_port()))
    with (
        scratch_directory(_scratch(directory)),
        _running(directory, "master", _MASTER, *options) as master,
        _workers(directory, url, workers, cores),
    ):
        assert wait_until(lambda: _log(master).count("Registering worker") == workers, 120), _log(master)
        yield url


@contextmanager
def _workers(directory: Path, url: str, left: int, cores: int) -> Iterator[None]:
    if not left:
        yield
        return
    work = directory / f"work-{left}"
    options = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(work), "--webui-port", str(free_port()), url]
    with _running(directory, f"worker-{left}", _WORKER, *options), _workers(directory, url, left - 1, cores):
        yield


@contextmanager
def _running(directory: Path, name: str, main: str, *options: str) -> Iterator[ManagedProcess]:
    command = (str(HOME / "bin" / "spark-class"), main, "--host", HOST, *options)
    java_home = find_java(os.environ).resolve().parent.parent
    env = {
        **os.environ, "SPARK_HOME": str(HOME), "JAVA_HOME": str(java_home), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary_directory(_scratch(directory))}",
    }  # fmt: skip
    process = ManagedProcess(ProcessSpec(name, command, directory / f"{name}.log", lambda: True, env))
    process.start()
    try:
        yield process
    finally:
        process.stop()


def _log(process: ManagedProcess) -> str:
    return process.spec.log_file.read_text(errors="replace")


def _scratch(directory: Path) -> Path:
    return directory / "scratch"
