"""What the process of a sink reports to the coordinator that started it: a file, which is replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from operators.core.errors import ExternalError

#: `failed`: somebody has to act. `retrying`: the failure may pass by itself.
Progress = Literal["running", "retrying", "failed"]


class SinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process `pid`. `restart` says that the sink can continue only after the target is emptied."""

    pid: int
    state: Progress = "running"
    reason: str = ""
    restart: bool = False
    #: The position up to which the target has the changes, and when this was last certain, in seconds since 1970.
    position: str | None = None
    at: float | None = None
    #: For how many restarts the target was emptied.
    cleared: int = 0


def write_report(file: Path, report: SinkReport) -> None:
    """Replaces the report in a file.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "report"
    >>> read_report(file), write_report(file, SinkReport(pid=7)), read_report(file).pid
    (None, None, 7)
    """
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_bytes(msgspec.json.encode(report))
    fresh.replace(file)


def read_report(file: Path) -> SinkReport | None:
    """The last report; None if there is none. Raises ExternalError for a file that is no report."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=SinkReport)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ExternalError(f'the report of a sink in "{file}" is damaged: {error}') from error
