"""The Dockerfile as data: its stages, their instructions, and the files of its build context."""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The Python that runs the tests, in place of the image's own: Debian has no executable named `python`.
PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Stage:
    """The lines of one stage: (instruction, rest)."""

    name: str
    base: str
    lines: tuple[tuple[str, str], ...] = ()

    def all(self, instruction: str) -> list[str]:
        """The arguments of all lines with an instruction, in order."""
        return [rest for word, rest in self.lines if word == instruction]

    def environment(self) -> dict[str, str]:
        """The variables that the ENV lines set."""
        return dict(part.split("=", 1) for rest in self.all("ENV") for part in rest.split())


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile."""
    joined = re.sub(r"\\\n", " ", text)
    lines = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[Stage] = []
    for word, rest in lines:
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name, base))
        else:
            last = stages[-1]
            stages[-1] = Stage(last.name, last.base, (*last.lines, (word, rest)))
    return stages


def our_stages() -> list[Stage]:
    """The stages of the project's Dockerfile."""
    return stages((ROOT / "Dockerfile").read_text())


def copy_context(target: Path) -> None:
    """Copies the build context: the files that .dockerignore does not exclude."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    for name in [line[1:] for line in lines if line.startswith("!")]:
        _copy(ROOT / name, target / name)


def _copy(source: Path, made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, made, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, made)
