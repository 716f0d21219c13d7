"""A PostgreSQL server for one benchmark, with the rows that the view has. It is stopped afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from dsms.local.ports import free_port
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

#: Where Debian installs it, beside the directories of PATH.
_DEBIAN = Path("/usr/lib/postgresql")
_READY_S = 60.0
ABSENT = "PostgreSQL is not installed: install it (Debian: postgresql) to have its times beside these"


def programs() -> Path | None:
    """The directory with initdb and postgres; None if PostgreSQL is not installed."""
    found = shutil.which("postgres")
    places = [*([Path(found).resolve().parent] if found else []), *sorted(_DEBIAN.glob("*/bin"), reverse=True)]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@contextmanager
def running_postgres() -> Iterator[str | None]:
    """The address of a server with its own settings, while the block runs; None if PostgreSQL is not installed."""
    if (directory := programs()) is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dsms-bench-postgres-") as temporary:
        yield from _served(directory, Path(temporary))


def _served(directory: Path, place: Path) -> Iterator[str]:
    user = _user()
    if user is not None:
        shutil.chown(place, user)
    place.chmod(0o700)
    data, port = place / "data", free_port()
    made = [directory / "initdb", "-D", data, "-U", "bench", "-A", "trust", "-N"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, user=user, cwd=place)
    listening = ["-p", str(port), "-k", str(place), "-c", "listen_addresses=127.0.0.1"]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(
            [directory / "postgres", "-D", data, *listening], stdout=log, stderr=log, user=user, cwd=place
        )
        try:
            address = f"postgresql://bench@127.0.0.1:{port}/postgres"
            if not wait_until(lambda: _answers(address), _READY_S):
                raise ExternalError(f"PostgreSQL does not answer: {(place / 'log').read_text()[-500:]}")
            yield address
        finally:
            server.terminate()
            server.wait(_READY_S)


def _user() -> str | None:
    """The user of the server. None: the user of the benchmark, unless it is root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _answers(address: str) -> bool:
    try:
        with psycopg.connect(address, connect_timeout=2) as client:
            return client.execute("SELECT 1").fetchall() == [(1,)]
    except psycopg.Error:
        return False


def fill(address: str, name: str, rows: int) -> None:
    """Creates a table of rows (k, k % 100, 2 k) with the same indexes as the view."""
    with psycopg.connect(address, autocommit=True) as client:
        client.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, g INT, v INT)")
        client.execute(f"INSERT INTO {name} SELECT k, k % 100, 2 * k FROM generate_series(0, {rows - 1}) AS s(k)")
        client.execute(f"CREATE INDEX ON {name} (v)")
        client.execute(f"ANALYZE {name}")
