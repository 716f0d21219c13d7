"""The format of all benchmark results: figures, and the machine, commit and versions with which they were measured."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("polars", "pyarrow", "numpy", "fastavro", "msgspec", "pyspark", "confluent-kafka", "redis")


@dataclass(frozen=True)
class Peer:
    """The figure of another system or library."""

    name: str
    value: float


@dataclass(frozen=True)
class Result:
    """A figure; `better` is "higher" or "lower", `aim` the value to reach."""

    name: str
    value: float
    unit: str
    better: str = "higher"
    aim: float | None = None
    peer: Peer | None = None


def write_report(
    path: Path,
    results: Sequence[Result],
    failures: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> None:
    """Writes the results as JSON and prints them. `failures` has the reason for each missing figure, `more` all other
    entries of the report."""
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    report = {
        "machine": machine,
        "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in PACKAGES},
        "results": [asdict(result) for result in results],
        **({"failures": dict(failures)} if failures else {}),
        **(more or {}),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    for result in results:
        peer = f"  ({result.peer.name}: {_shown(result.peer.value)})" if result.peer else ""
        print(f"{result.name:<44} {_shown(result.value):>14} {result.unit}{peer}")
    for name, reason in (failures or {}).items():
        print(f"{name:<44} no figure: {reason}")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2f}"
