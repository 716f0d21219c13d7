"""The process that writes one sink, and the state that follows from its reports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connectors.credentials.secrets import without_secrets
from connectors.tables.sink_report import SinkReport, read_report
from dsms.local.process import ManagedProcess, ProcessSpec
from dsms.local.supervision import Watched
from dsms.model.catalog import Catalog
from dsms.model.sink_states import SinkState
from dsms.model.sinks import KeptSink
from operators.core.masking import masked

_LOOPBACK = "127.0.0.1"
#: The most characters of a line of the log that a message has.
_LONGEST = 300
#: How much of the end of a log is read for its last line.
_END_BYTES = 64 * 1024


@dataclass(frozen=True)
class ReaderAccess:
    """The URL and the token with which the processes of sinks read results from this coordinator."""

    url: str
    token: str


@dataclass(frozen=True)
class SinkWork:
    """What the process of a sink does. If this changes, another process is started. `result` is the present name."""

    result: str
    target: str
    known_as: str
    table: str | None
    every: float | None
    changes: bool
    restarts: int
    created: int = 0

    @staticmethod
    def of(sink: KeptSink, catalog: Catalog) -> SinkWork:
        """The work of a sink of the catalog."""
        return SinkWork(
            catalog.result_of(sink).name,
            sink.target,
            sink.known_as,
            sink.table,
            sink.every,
            sink.changes,
            sink.restarts,
            sink.created,
        )

    def command(self, access: ReaderAccess, report: Path, *, restart: bool) -> tuple[str, ...]:
        """The command line of its process. Everybody on the machine can read it, so it has no target and no token."""
        task: dict[str, Any] = {
            "result": self.result,
            "target": "",
            "table": self.table,
            "changes": self.changes,
            "every_s": self.every,
            "known_as": self.known_as,
            "restart": restart,
        }
        program = (sys.executable, "-m", "dsms.sinks")
        return (*program, json.dumps(task), access.url, str(report), str(self.restarts))


def environment(environ: Mapping[str, str], target: str, token: str) -> dict[str, str]:
    """The environment of the process: that of the coordinator, with its secrets but without its settings.

    >>> sorted(environment({"DSMS_REDIS": "redis://:p@h", "DSMS_SECRET_DB": "x", "PATH": "/bin"}, "/files", "t"))
    ['DSMS_SECRET_DB', 'DSMS_SINK', 'DSMS_TOKEN', 'NO_PROXY', 'PATH', 'no_proxy']
    """
    ours = ("DSMS_SECRET_", "DSMS_SECRETS_DIR")
    kept = {name: value for name, value in environ.items() if not name.startswith("DSMS_") or name.startswith(ours)}
    direct = environ.get("no_proxy") or environ.get("NO_PROXY")
    direct = f"{direct},{_LOOPBACK}" if direct else _LOOPBACK
    return {**kept, "DSMS_SINK": target, "DSMS_TOKEN": token, "no_proxy": direct, "NO_PROXY": direct}


class SinkProcess:
    """The process of a sink, which is started again after growing pauses when it ends."""

    def __init__(self, name: str, work: SinkWork, directory: Path, access: ReaderAccess, *, restart: bool) -> None:
        """`directory` is its own. With `restart`, the process empties the target first."""
        self.work = work
        self._file = directory / "report"
        log = directory / "log"
        command = work.command(access, self._file, restart=restart)
        environ = environment(os.environ, work.target, access.token)
        spec = ProcessSpec(f"sink {name}", command, log, lambda: True, environ)
        self._process = ManagedProcess(spec)
        self._watched = Watched(spec.name, self._process)
        self._log = log
        self._begun = False

    def start_if_due(self) -> None:
        """Starts the process if it does not run and its pause is over."""
        if not self._begun or self._watched.due():
            self._begun = True
            self._log.unlink(missing_ok=True)  # each process has a log of its own, so the file stays small
            self._watched.start(lambda: False)

    def report(self) -> SinkReport | None:
        """The last report of this process or of the one before it."""
        return read_report(self._file)

    def end(self) -> None:
        """Kills the process. That loses nothing: what it writes takes effect as a whole or not at all."""
        self._process.kill()

    def state(self, name: str) -> SinkState:
        """The state of the sink of this name."""
        code = self._process.exit_code
        ending = "" if code is None else f"the process ended with exit code {code}{self._last_words()}"
        return state_of(name, self.report(), self._process.pid, ending)

    def _last_words(self) -> str:
        """The last line of the log after a colon, for a message. Secrets are masked before it is cut."""
        last = masked(without_secrets(_last_line(self._log), self.work.target, os.environ))
        return f": {last[:_LONGEST]}" if last else ""


def _last_line(file: Path) -> str:
    """The last line of a log; empty if there is none. Only the end of the file is read, because libraries may have
    written much."""
    if not file.exists():
        return ""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _END_BYTES))
        lines = opened.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def state_of(name: str, report: SinkReport | None, pid: int | None, ending: str) -> SinkState:
    """The state of a sink, by the last report, the id of its last process, and how that ended ("": it runs).

    >>> state_of("s", None, 7, "").name, state_of("s", SinkReport(pid=7), 7, "").name
    ('starting', 'running')
    >>> state_of("s", SinkReport(pid=7), 7, "the process ended with exit code -9").name
    'retrying'
    >>> state_of("s", SinkReport(pid=6, state="failed", reason="full"), 7, "").name
    'failed'
    """
    if report is None:
        known = SinkState()
    elif report.state == "running" and report.pid != pid:
        known = SinkState("starting", "", report.position, report.at)
    else:
        hint = f"; ALTER SINK {name} RESTART empties the target and begins again" if report.restart else ""
        known = SinkState(report.state, f"{report.reason}{hint}", report.position, report.at)
    return replace(known, name="retrying", reason=ending) if ending and known.name in ("starting", "running") else known
