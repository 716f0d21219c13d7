"""How many statements a second a server answers for several clients of PostgreSQL's own load generator, pgbench.

It takes a tenth of the CPU that clients in Python would take from the server on the same machine.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.postgres_peer import programs
from operators.core.errors import ExternalError

_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: (\d+)", re.MULTILINE)
#: The column of pgbench's log that has the duration of a statement in microseconds.
_MICROS = 2


@dataclass(frozen=True)
class Rate:
    """Statements a second, and their durations in milliseconds: the median, and that which 99 of 100 do not exceed."""

    a_second: float
    p50_ms: float
    p99_ms: float


def program() -> Path | None:
    """The path of pgbench; None if it is not installed."""
    directory = programs()
    found = directory / "pgbench" if directory else None
    return found if found is not None and found.exists() else None


def rate_of(script: str, address: str, clients: int, seconds: float) -> Rate:
    """Runs a script, in pgbench's language, by prepared statements. `address` is a URL of PostgreSQL. Raises
    ExternalError if pgbench is not installed or a statement fails."""
    if (pgbench := program()) is None:
        raise ExternalError("pgbench is not installed", hint="install PostgreSQL (Debian: postgresql)")
    with tempfile.TemporaryDirectory(prefix="dsms-pgbench-") as directory:
        place = Path(directory)
        (place / "script").write_text(script)
        options = ("-n", "-M", "prepared", "-f", place / "script", "-c", clients, "-j", 1, "-T", max(1, round(seconds)))
        command = [pgbench, *options, "-l", "--log-prefix", place / "log", address]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        rate, failed = _TPS.search(done.stdout), _FAILED.search(done.stdout)
        if done.returncode or rate is None or (failed is not None and failed[1] != "0"):
            raise ExternalError(f"pgbench has failed: {done.stderr.strip() or done.stdout.strip()}")
        logs = [np.loadtxt(log, usecols=_MICROS, ndmin=1) for log in place.glob("log.*")]
        p50, p99 = np.percentile(np.concatenate(logs), (50, 99)) / 1_000
    return Rate(float(rate[1]), float(p50), float(p99))
