"""Images without a container engine. Ours is built by the RUN lines of the Dockerfile in a clean root. Those of Kafka
and Redis have only what the chart relies on, with the programs of this machine."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsms.local.artifacts import Resolver, cache_dir
from dsms.local.java import find_java
from dsms.local.redis_server import find_redis
from integration.dockerfile import PYTHON, copy_context, our_stages
from integration.kube.sandbox import Bind, Sandbox
from operators.core.errors import ExternalError

_PASSED_ON = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_")
_TAIL = 2000


class Image(Protocol):
    """The part of an image that a container sees."""

    def binds(self) -> tuple[Bind, ...]:
        """The binds that show the image's files to a container."""
        ...

    def environment(self) -> dict[str, str]:
        """The environment that the image sets."""
        ...


@dataclass(frozen=True)
class ThirdPartyImage:
    """A third-party image: directories of this machine in the image's places, and the directory of its programs."""

    files: tuple[Bind, ...]
    path: str

    def binds(self) -> tuple[Bind, ...]:
        """The binds that show the image's files to a container."""
        return self.files

    def environment(self) -> dict[str, str]:
        """The environment that the image sets."""
        return {"PATH": f"{self.path}:/usr/bin:/bin", "HOME": "/tmp"}


def foreign_images() -> dict[str, Image]:
    """What containers see of `apache/kafka` (its libraries, and Java) and `redis`."""
    java = find_java(os.environ)
    jars = Resolver(java, cache_dir(os.environ), os.environ).broker_jars()
    redis = find_redis(os.environ)
    return {
        "apache/kafka": ThirdPartyImage((Bind(jars, "/opt/kafka/libs"),), str(java.resolve().parent)),
        "redis": ThirdPartyImage((Bind(redis.parent, "/opt/redis"),), "/opt/redis"),
    }


@dataclass(frozen=True)
class Built:
    """The image that the RUN lines have built: where its directories are on the host."""

    program: Path
    etc: Path

    def binds(self) -> tuple[Bind, ...]:
        """The binds by which a container sees the image."""
        users = [Bind(self.etc / name, f"/etc/{name}") for name in ("passwd", "group")]
        return Bind(self.program, "/opt/dsms"), *users

    def environment(self) -> dict[str, str]:
        """The environment that the Dockerfile sets, with the host's Java."""
        java = find_java(os.environ).resolve().parents[1]
        return {
            **our_stages()[-1].environment(),
            "JAVA_HOME": str(java),
            "PATH": f"/opt/dsms/bin:{java}/bin:/usr/bin:/bin",
        }


def build(directory: Path) -> Built:
    """Executes the RUN lines on a copy of the build context, in a clean root."""
    stage = our_stages()[0]
    sys.stderr.write("building the image, about a minute\n")
    for name in ("source", "opt"):
        (directory / name).mkdir(parents=True)
    copy_context(directory / "source")
    binds = (
        Bind(directory / "source", "/source", writable=True), Bind(directory / "opt", "/opt", writable=True),
        Bind(_pip_cache(), "/var/cache/pip", writable=True),
    )  # fmt: skip
    sandbox = Sandbox(directory / "root", binds, writable=True)
    sandbox.prepare()
    env = {**_passed_on(os.environ), **stage.environment(), "PIP_CACHE_DIR": "/var/cache/pip", "HOME": "/tmp"}
    for line in stage.all("RUN"):
        _run(sandbox.command(("/bin/sh", "-c", line), stage.all("WORKDIR")[-1]), env)
    return Built(directory / "opt" / "dsms", directory / "root" / "etc")


def _run(command: tuple[str, ...], env: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ExternalError("a step of the image failed", hint=(done.stdout + done.stderr)[-_TAIL:])


def _passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for network access, and a PATH with the Python that runs the tests."""
    kept = {name: value for name, value in environ.items() if name.upper().startswith(_PASSED_ON)}
    return {**kept, "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin", "PYTHON": PYTHON}


def _pip_cache() -> Path:
    done = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True)
    cache = Path(done.stdout.strip())
    cache.mkdir(parents=True, exist_ok=True)
    return cache
