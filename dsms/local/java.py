"""Finds a Java that can run the broker and Spark."""

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dsms.local.versions import versions
from operators.core.errors import ConfigError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_major(version_text: str) -> int | None:
    """The major version in the output of `java -version`, or None.

    >>> java_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major('java version "1.8.0_401"')
    8
    """
    match = _VERSION.search(version_text)
    return int(match.group(1)) if match else None


def find_java(environ: Mapping[str, str]) -> Path:
    """The first Java in JAVA_HOME and PATH that is new enough. Raises ConfigError if none is."""
    rejected: list[str] = []
    for candidate in _candidates(environ):
        major = java_major(_version_text(candidate))
        if major is not None and major >= versions().java:
            return candidate
        rejected.append(f'"{candidate}" is version {major}' if major else f'"{candidate}" does not report its version')
    reason = ", ".join(rejected) or "none found in JAVA_HOME or PATH"
    raise ConfigError(f"java {versions().java} or newer is needed: {reason}", hint=f"install it with: {_install()}")


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    homes = [Path(environ["JAVA_HOME"]) / "bin" / "java"] if environ.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    return [path for path in (*homes, *([Path(on_path)] if on_path else [])) if path.is_file()]


def _version_text(java: Path) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _install() -> str:
    if platform.system() == "Darwin":
        return f"brew install openjdk@{versions().java}"
    if shutil.which("dnf"):
        return f"sudo dnf install java-{versions().java}-openjdk-headless"
    return f"sudo apt-get install openjdk-{versions().java}-jre-headless"
