"""Lists the packages of requirements.lock in build/sbom.json (CycloneDX), and asks OSV whether they have known faults.

The exit code is 1 if a fault is known. If OSV cannot be reached, the script says so and exits with 0, so that work can
continue without a network. A lock file without known faults is not checked again on the same day.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
LOCK, BUILD = ROOT / "requirements.lock", ROOT / "build"
OSV = "https://api.osv.dev/v1/query"
#: Known faults that do not affect us, by id, each with the reason.
ACCEPTED: Mapping[str, str] = {}
_TIMEOUT_S, _ANSWER_S = 180, 8


@dataclass(frozen=True)
class Verdict:
    """The result of an audit: no known faults, some, or not all packages could be checked; and lines to print."""

    outcome: Literal["clean", "faulty", "unchecked"]
    lines: tuple[str, ...]


def verdict(output: str, errors: str, accepted: Mapping[str, str] = ACCEPTED) -> Verdict:
    """The verdict from the output of pip-audit. A fault found decides it, even if other packages could not be checked.

    >>> verdict("", "ConnectionError: no route to host").outcome
    'unchecked'
    >>> verdict('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "").outcome
    'clean'
    """
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = errors.strip().splitlines()[-1:] or ["it said nothing"]
        return Verdict("unchecked", (f"packages could not be checked for known faults: {last[0]}",))
    faults = [
        (package["name"], package["version"], fault) for package in packages for fault in package.get("vulns", ())
    ]
    lines = [_line(*fault) for fault in faults if not _ids(fault[2]) & accepted.keys()]
    if lines:
        return Verdict("faulty", tuple(lines))
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        return Verdict("unchecked", (f"{len(skipped)} of {len(packages)} packages could not be checked", *skipped[:5]))
    return Verdict("clean", (f"no faults are known of {len(packages)} packages",))


def _ids(fault: Mapping[str, object]) -> set[str]:
    aliases = fault.get("aliases") or []
    assert isinstance(aliases, list)
    return {str(fault["id"]), *map(str, aliases)}


def _line(name: str, version: str, fault: Mapping[str, object]) -> str:
    fixes = fault.get("fix_versions") or []
    assert isinstance(fixes, list)
    cure = f"fixed in {', '.join(map(str, fixes))}" if fixes else "no version fixes it"
    return f"{name} {version} has the known fault {', '.join(sorted(_ids(fault)))}: {cure}"


def stamp(lock: bytes, day: date) -> str:
    """The note that a lock file was without known faults on a day, so that it is not checked again on that day."""
    return f"{day.isoformat()} {hashlib.sha256(lock).hexdigest()}"


def write_sbom() -> Path:
    """Lists the packages; returns the file."""
    file = BUILD / "sbom.json"
    command = ("requirements", str(LOCK), "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible")
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}  # it warns that a lock does not say which package needs which
    subprocess.run([_program("cyclonedx-py"), *command, "--of", "JSON", "-o", str(file)], check=True, env=quiet)
    return file


def audited(lock: Path = LOCK, url: str = OSV) -> Verdict:
    """Asks OSV about all packages of a lock file."""
    command = [_program("pip-audit"), "-r", str(lock), "--no-deps", "--disable-pip", "-s", "osv", "--osv-url", url]
    asked = [*command, "-f", "json", "--timeout", str(_ANSWER_S), "--progress-spinner", "off"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return verdict("", f"no answer within {_TIMEOUT_S} s")
    return verdict(done.stdout, done.stderr)


def main() -> int:
    """Lists and checks the packages; returns the exit code."""
    BUILD.mkdir(exist_ok=True)
    print(f"packages are listed in {write_sbom().relative_to(ROOT)}")
    noted, now = BUILD / "packages-without-faults", stamp(LOCK.read_bytes(), datetime.now(UTC).date())
    if noted.is_file() and noted.read_text() == now:
        return 0
    found = audited()
    print("\n".join(found.lines), file=sys.stderr if found.outcome == "faulty" else sys.stdout)
    if found.outcome == "clean":
        noted.write_text(now)
    return 1 if found.outcome == "faulty" else 0


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


if __name__ == "__main__":
    sys.exit(main())
