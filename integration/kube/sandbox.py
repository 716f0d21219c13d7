"""Runs processes with their own root, as in a container: they see the host's programs, and otherwise only given files.

This takes two Linux namespaces, for mounts and the host name, and no container engine. Users, processes and network are
the host's.
"""

import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from operators.core.errors import ConfigError

#: Directories that are taken from the host unchanged; links such as /bin are re-created.
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_KERNEL = ("dev", "proc", "sys")


@dataclass(frozen=True)
class Bind:
    """A file or directory of the host, and where the process sees it."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Sandbox:
    """A root in its own directory. If it is writable, files that are written outside of binds stay there."""

    root: Path
    binds: tuple[Bind, ...] = ()
    writable: bool = False
    hostname: str = "sandbox"

    def prepare(self) -> None:
        """Creates the mount points."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name in _SYSTEM:
            _mount_point_or_link(Path("/") / name, self.root / name)
        for name in (*_KERNEL, "tmp"):
            (self.root / name).mkdir(exist_ok=True)
        if not (self.root / "etc").exists():
            shutil.copytree("/etc", self.root / "etc", symlinks=True, ignore=_private, ignore_dangling_symlinks=True)
        for bind in self._all():
            _mount_point(bind, self.root / bind.target.lstrip("/"))

    def command(self, argv: Iterable[str], directory: str = "/") -> tuple[str, ...]:
        """The command line that runs a program inside; the process keeps its id."""
        lines = ["set -e", "PATH=$PATH:/usr/sbin:/sbin", f"echo {self.hostname} > /proc/sys/kernel/hostname"]
        lines.append(f"mount --bind {_quoted(self.root)} {_quoted(self.root)}")
        for bind in self._all():
            target = _quoted(self.root / bind.target.lstrip("/"))
            if bind.source.is_dir():
                lines.append(f"[ -d {target} ] || mkdir -p {target}")  # it may be within another bind
            lines.append(f"mount --rbind {_quoted(bind.source)} {target}")
            if not bind.writable:
                lines.append(f"mount -o remount,bind,ro {target}")
        if not self.writable:
            lines.append(f"mount -o remount,bind,ro {_quoted(self.root)}")
        lines.append(f'exec chroot {_quoted(self.root)} /bin/sh -c \'cd {directory}; exec "$@"\' sh "$@"')
        return (*_namespace(), "/bin/sh", "-c", "\n".join(lines), "sandbox", *argv)

    def _all(self) -> list[Bind]:
        """All binds, the host's and the given ones, each directory before its content."""
        system = [Bind(Path("/") / name, f"/{name}") for name in _SYSTEM if _own_directory(Path("/") / name)]
        kernel = [Bind(Path("/") / name, f"/{name}", writable=True) for name in _KERNEL]
        python = Path(sys.base_prefix).resolve()
        outside = [] if python.is_relative_to("/usr") else [Bind(python, str(python))]
        return sorted([*system, *kernel, *outside, *self.binds], key=lambda bind: bind.target.count("/"))


def check_sandboxes() -> None:
    """Raises ConfigError if processes cannot have a root of their own here."""
    try:
        done = subprocess.run([*_namespace(), "true"], capture_output=True, text=True, check=False)
        said = "" if done.returncode == 0 else done.stderr.strip()
    except FileNotFoundError:
        said = "there is no unshare"
    if said:
        raise ConfigError(f"mount namespaces are needed: {said}", hint="run it as root on Linux")


def _namespace() -> tuple[str, ...]:
    return ("unshare", "--mount", "--propagation", "private", "--uts")


def _own_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _mount_point_or_link(source: Path, made: Path) -> None:
    if source.is_symlink() and not made.is_symlink():
        made.symlink_to(source.readlink())
    elif _own_directory(source):
        made.mkdir(exist_ok=True)


def _mount_point(bind: Bind, made: Path) -> None:
    if bind.source.is_dir():
        made.mkdir(parents=True, exist_ok=True)
    elif not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()


def _private(directory: str, names: list[str]) -> set[str]:
    """The entries to leave out: those that are not readable by everybody, and sockets."""
    return {name for name in names if not _public(Path(directory) / name)}


def _public(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISLNK(mode) or ((stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and bool(mode & stat.S_IROTH))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
