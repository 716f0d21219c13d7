"""The README's "Five minutes by hand": each command prints the output that the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "README.md").read_text().split("## Five minutes by hand\n")[1].split("\n## ")[0]
#: The directory in the README's output, and the ports of the services there.
HOME, PORTS = "/home/you", {"coordinator": 8080, "console": 8080, "kafka": 9092, "redis": 6379}


def typed() -> Iterator[tuple[str, str]]:
    """Each command with the output that the README shows. A command with `<<'END'` includes the lines up to END."""
    for block in re.findall(r"^```console\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.endswith("<<'END'"):
                text, _, output = output.partition("END\n")
                command = f"{command}\n{text}END"
            yield command, output


def shown(output: str, directory: Path) -> str:
    """The output with the README's directory and ports, without tokens and expected costs, which vary."""
    output = re.sub(r"#token=\S+", "#token=dsms_…", output)
    output = re.sub(r"^(expected: ).*$", r"\1…", output.replace(str(directory), HOME), flags=re.MULTILINE)
    for name, port in PORTS.items():
        output = re.sub(rf"^({name} +\S*127\.0\.0\.1:)\d+", rf"\g<1>{port}", output, flags=re.MULTILINE)
    return output


def ran(command: str, directory: Path, environ: dict[str, str]) -> tuple[int, str]:
    """Runs a command; returns its exit status and its output."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environ, text=True, timeout=300, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ports = {f"DSMS_{name}_PORT": "0" for name in ("KAFKA", "REDIS", "HTTP")}
    environ = {**os.environ, "PATH": path, **ports}
    commands = list(typed())
    assert [command.split()[1] for command, _ in commands if command.startswith("dsms")] == [
        "up", "sql", "publish", "publish", "consume", "explain", "dead-letters", "down",
    ]  # fmt: skip
    try:
        for command, expected in commands:
            status, output = ran(command, tmp_path, environ)
            assert (status, shown(output, tmp_path)) == (0, shown(expected, tmp_path)), f"{command}\n{output}"
    finally:
        ran("dsms down", tmp_path, environ)
