"""The package dsms-client, in an environment of its own, with a real coordinator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from integration.cluster import Cluster
from tests.support.client_package import built_wheel, environment_with

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
PROGRAM = """
import json, sys
from dsms.client import Client, StatementError
url, name = sys.argv[1:]
with Client(url) as client:
    client.execute(f'''
        REGISTER SOURCE {name} (room VARCHAR NOT NULL, t INT) FROM "{name}" PARTITIONS 2 IDLE NEVER;
        CREATE STREAM {name}s OVER {name} KEY room;
        CREATE STREAMED VIEW {name}hot AS SELECT room, t FROM R({name}s) WHERE t > 80
    ''')
    rows = [{"room": "a", "t": 105, "ts": 2}, {"room": "b", "t": 70, "ts": 3}]
    cover = client.wait(f"{name}hot", client.publish(name, rows, key=["room"], advance=4), 240)
    relation = client.relation(f"{name}hot")
    changes = [(change.op, change.values) for change in client.changes(f"{name}hot", follow=False)]
    try:
        client.execute("SELECT missing")
    except StatementError as error:
        place = [error.line, error.column]
print(json.dumps([cover.refused, list(relation), changes, place]))
"""


def test_a_program_with_only_the_client_reads_back_what_it_publishes(
    cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    python = environment_with(built_wheel(tmp_path / "wheel"), tmp_path / "environment")
    command = [python, "-I", "-c", PROGRAM, cluster.url, unique]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    refused, rows, changes, place = json.loads(done.stdout)
    row = {"room": "a", "t": 105}
    assert (refused, rows, changes) == ([], [row], [["+", row]])
    assert place[0] == 1
