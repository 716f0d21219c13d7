"""The programs of a Kubernetes cluster, built once from their sources into the cache.

Run as a script it prints where a program is: `python integration/kube/programs.py helm`.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dsms.local.artifacts import cache_dir
from operators.core.errors import ConfigError, DsmsError, ExternalError

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
CONTROL_PLANE = Path(__file__).parent / "control_plane"
_TAIL = 15
_PROGRESS_S = 30.0


def helm() -> Path:
    """The helm program: that of the wheel, or built from source."""
    wheels = Path(sys.executable).with_name("helm")
    return wheels if wheels.exists() else _built(f"helm-{HELM.partition('@')[2]}", "about 2 minutes", _install_helm)


def control_plane() -> Path:
    """The API server and the controller manager, as one program."""
    sources = b"".join((CONTROL_PLANE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    name = f"control-plane-{_kubernetes_version()}-{hashlib.sha256(sources).hexdigest()[:8]}"
    return _built(name, "about 5 minutes", _build_control_plane)


def etcd() -> Path:
    """etcd, the store of the API server, from the system's packages."""
    program = shutil.which("etcd")
    if program is None:
        raise ConfigError('no "etcd" found in PATH', hint="install it with: sudo apt-get install etcd-server")
    return Path(program)


PROGRAMS = {"etcd": etcd, "helm": helm, "control-plane": control_plane}


def missing_go() -> str:
    """The reason why nothing can be built here; empty if it can."""
    return "" if shutil.which("go") else 'no "go" found in PATH; it is needed to build helm and the API server'


def _built(name: str, how_long: str, build: Callable[[Path], None]) -> Path:
    """The program in the cache, where one process builds it while others wait."""
    directory = cache_dir(os.environ) / "kube"
    program = directory / name
    with _alone(directory / f"{name}.lock"):
        if not program.exists():
            if missing_go():
                raise ConfigError(missing_go(), hint="install Go 1.24 or newer")
            _say(f"building {name} into {directory} (once, {how_long})")
            build(program)
    return program


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install_helm(target: Path) -> None:
    work = target.with_suffix(".building")
    shutil.rmtree(work, ignore_errors=True)
    _go(["install", *_flags(), HELM], target.parent, {"GOBIN": str(work)})
    (work / "helm").rename(target)
    work.rmdir()


def _build_control_plane(target: Path) -> None:
    work = target.with_suffix(".building")
    version = _kubernetes_version().split(".")
    stated = {"gitVersion": f"v{'.'.join(version)}", "gitMajor": version[0], "gitMinor": version[1]}
    linked = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stated.items()]
    _go(["build", *_flags(*linked), "-o", str(work), "."], CONTROL_PLANE, {})
    work.rename(target)


def _kubernetes_version() -> str:
    """The version of the module that the programs are built from; without it they would report 0.0.0."""
    match = re.search(r"k8s\.io/kubernetes v([0-9.]+)", (CONTROL_PLANE / "go.mod").read_text())
    assert match
    return match[1]


def _flags(*linked: str) -> tuple[str, ...]:
    return "-trimpath", "-buildvcs=false", "-ldflags", " ".join(("-s -w", *linked))


def _go(arguments: list[str], directory: Path, extra: dict[str, str]) -> None:
    """Runs go at low priority, and reports every half minute that it is still running."""
    process = subprocess.Popen(
        ["nice", "-n", "10", "go", *arguments], cwd=directory, env={**os.environ, **extra},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said = _said(process)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise ExternalError(f"go {arguments[0]} failed", hint="\n".join(said.splitlines()[-_TAIL:]))


def _said(process: subprocess.Popen[str]) -> str:
    began = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=_PROGRESS_S)[0]
        except subprocess.TimeoutExpired:
            _say(f"still building, after {time.monotonic() - began:.0f} s")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Prints the paths of the programs named on the command line, and builds those that are missing."""
    try:
        for name in sys.argv[1:] or PROGRAMS:
            sys.stdout.write(f"{PROGRAMS[name]()}\n")
    except DsmsError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
