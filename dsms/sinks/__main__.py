"""`python -m dsms.sinks`: the process that the coordinator runs for a sink of the catalog. It ends with its parent.

The command line has the task without its target, as JSON, the URL of the coordinator, the file of reports and the
number of the restart. The environment has the target (`DSMS_SINK`) and the token of the coordinator (`DSMS_TOKEN`).
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from connectors.credentials.secrets import resolved_url, without_secrets
from connectors.tables.sink import Position, PositionLost
from connectors.tables.sink_report import SinkReport, read_report, write_report
from dsms.client import Client
from dsms.client.errors import PositionGone
from dsms.sinks.following import SinkTask, follow
from operators.core.errors import DsmsError, ExternalError, UserError
from operators.core.masking import masked


class Reporter:
    """Writes reports of how a sink proceeds."""

    def __init__(self, file: Path, restarts: int) -> None:
        self._file, self._restarts = file, restarts
        before = read_report(file)
        self._report = SinkReport(pid=os.getpid(), cleared=before.cleared if before else 0)

    @property
    def is_cleared(self) -> bool:
        """Whether this process or one before it has emptied the target for the last restart."""
        return self._report.cleared >= self._restarts

    def cleared(self) -> None:
        """Reports that the target is empty."""
        self._write(cleared=self._restarts)

    def starts(self, after: Position | None) -> None:
        """Reports where it starts."""
        self._write(position=after and after.token, at=after and after.confirmed_at)

    def written(self, count: int, token: str) -> None:
        """Reports what is written."""
        self._write(state="running", reason="", position=token, at=time.time())

    def fails(self, error: ExternalError, pause_s: float) -> None:
        """Reports why a write is tried again."""
        self._write(state="retrying", reason=_shown(str(error)))

    def ends(self, error: DsmsError) -> None:
        """Reports why the process ends."""
        restart = isinstance(error, PositionLost | PositionGone)
        reason = error.message if restart else str(error)
        state = "failed" if isinstance(error, UserError) else "retrying"
        self._write(state=state, reason=_shown(reason), restart=restart)

    def _write(self, **changed: object) -> None:
        self._report = msgspec.structs.replace(self._report, **changed)
        write_report(self._file, self._report)


def _shown(reason: str) -> str:
    """A reason without secrets: drivers repeat users and passwords in their messages."""
    return masked(without_secrets(reason, os.environ["DSMS_SINK"], os.environ))


def main(task: str, url: str, file: str, restarts: str) -> int:
    """Follows the result, and returns the exit code."""
    reporter = Reporter(Path(file), int(restarts))
    try:
        target = resolved_url(os.environ["DSMS_SINK"], os.environ)
        given = msgspec.json.decode(task, type=SinkTask)
        whole = replace(given, target=target, restart=given.restart and not reporter.is_cleared)
        with Client(url) as api:
            follow(api, whole, reporter)
    except DsmsError as error:
        reporter.ends(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
