"""Reports of damaged runs: workers that find damage report it here, and the fragment's driver raises the alarms."""

from __future__ import annotations

from contextlib import suppress

from connectors.runs.shared import MAX_REPORTS, SharedRuns
from operators.core.errors import ExternalError


class DamageReports:
    """The pending reports of damaged state of a fragment: the reason by place, which is a file or a key of the
    store."""

    def __init__(self, shared: SharedRuns) -> None:
        self._shared = shared
        #: Reports that could not be written yet, since the store is unavailable or full.
        self._waiting: dict[str, str] = {}

    def report(self, place: str, reason: str) -> None:
        """Reports damage at a place. If the store refuses the report, it is written with the next one."""
        self._waiting = dict([*self._waiting.items(), (place, reason)][-MAX_REPORTS:])
        with suppress(ExternalError):
            self._shared.report(self._waiting)
            self._waiting = {}

    def drain(self) -> dict[str, str]:
        """Returns and removes the reports."""
        heard = self._shared.drain()
        waiting, self._waiting = self._waiting, {}
        return {**heard, **waiting}
