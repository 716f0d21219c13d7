"""`dsms logs`: shows the logs of the services that `dsms up` started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, DataDir
from dsms.cli.output import print_line
from operators.core.errors import UserError

_POLL_S = 0.3
_MOST_BYTES = 1 << 20


def logs(
    service: Annotated[
        str | None, typer.Argument(help="Name of the service, such as executor-1; all of them by default.")
    ] = None,
    last: Annotated[int, typer.Option("-n", "--last", min=0, help="Show the last N lines of each log.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show new lines as well, until Ctrl-C.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show the logs of the services that `dsms up` started, also after they have ended.

    Example: dsms logs executor-1 -n 20
    """
    files = chosen(log_files(data_dir), service, data_dir)
    ends = {}
    for name, file in files.items():
        lines, ends[name] = last_lines(file, last)
        _show(name, lines, several=len(files) > 1)
    while follow:
        time.sleep(_POLL_S)
        for name, file in files.items():
            lines, ends[name] = lines_from(file, ends[name])
            _show(name, lines, several=len(files) > 1)


def log_files(data_dir: Path) -> dict[str, Path]:
    """The log of each service that has one in the data directory, by the name of the service."""
    own = sorted(data_dir.glob("*.log"))
    backing = [file for name in ("kafka", "redis") if (file := data_dir / name / f"{name}.log").exists()]
    return {file.stem: file for file in (*backing, *own)}


def chosen(files: Mapping[str, Path], service: str | None, data_dir: Path) -> dict[str, Path]:
    """The files of one service, or all. Raises UserError if there is none."""
    if not files:
        raise UserError(f'no logs in "{data_dir}"', hint='start a cluster with "dsms up", or pass --data-dir')
    if service is None:
        return dict(files)
    if service not in files:
        raise UserError(f'no log of a service "{service}" in "{data_dir}"', hint=f"have: {', '.join(files)}")
    return {service: files[service]}


def last_lines(file: Path, count: int) -> tuple[list[str], int]:
    """The last whole lines of a file, of its last MiB at most, and the byte position after them."""
    size = file.stat().st_size
    lines, end = lines_from(file, max(size - _MOST_BYTES, 0))
    return lines[max(len(lines) - count, 0) :], end


def lines_from(file: Path, position: int) -> tuple[list[str], int]:
    """The whole lines from a byte position on, and the position after them. A file that has become shorter was
    replaced: it is read from its start.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "a.log"
    >>> _ = file.write_bytes(b"one\\ntwo\\nthr")
    >>> lines_from(file, 4)
    (['two'], 8)
    """
    start = position if file.stat().st_size >= position else 0
    with file.open("rb") as opened:
        opened.seek(start)
        whole, end, _ = opened.read().rpartition(b"\n")
    return whole.decode("utf-8", "replace").split("\n") if end else [], start + len(whole) + len(end)


def _show(name: str, lines: list[str], *, several: bool) -> None:
    for line in lines:
        print_line(f"{name}: {line}" if several else line)
