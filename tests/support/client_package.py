"""The package dsms-client: its wheel, and an environment that has it and its dependencies, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())


def built_wheel(directory: Path) -> Path:
    """The wheel of dsms-client, built in a directory with links to the sources."""
    source = directory / "source"
    (source / "client").mkdir(parents=True)
    for name in ("dsms", "operators", "connectors"):
        (source / name).symlink_to(ROOT / name)
    for file in ("pyproject.toml", "README.md"):
        (source / "client" / file).write_text((ROOT / "client" / file).read_text())
    command = ("uv", "build", "--wheel", "--no-build-isolation", "--offline", "--out-dir", str(directory))
    done = subprocess.run(
        [sys.executable, "-m", *command, str(source / "client")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel


def environment_with(wheel: Path, directory: Path) -> Path:
    """The Python of a new environment with the wheel and the packages that it depends on, which are those of this
    environment: no registry is asked."""
    venv.create(directory, with_pip=False)
    (packages,) = directory.glob("lib/python*/site-packages")
    command = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--target", str(packages)]
    done = subprocess.run([*command, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in with_their_dependencies(PROJECT["project"]["dependencies"]):
        for file in metadata.files(name) or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    return directory / "bin" / "python"


def with_their_dependencies(requirements: list[str]) -> set[str]:
    """The names of the packages that requirements name, and of all that these need without extras."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()
        if "extra ==" not in requirement and name not in found and installed(name):
            found.add(name)
            waiting += metadata.requires(name) or ()
    return found


def installed(name: str) -> bool:
    """Whether this environment has a package: others are for other platforms and versions of Python."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
