"""The commands are listed and completed without their modules, and those of everyday use start with few libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dsms.cli.main import COMMANDS, app

#: Libraries that take a tenth of a second and more to import; a command that only calls the coordinator needs none.
_HEAVY = ("confluent_kafka", "duckdb", "kafka", "numpy", "polars", "prompt_toolkit", "pyarrow", "redis", "sqlglot")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_help_is_that_of_the_command(name: str) -> None:
    loaded = COMMANDS[name].load(name)
    assert " ".join((loaded.help or "").split("\n\n")[0].split()) == COMMANDS[name].summary


def test_a_mistyped_command_names_the_nearest_one() -> None:
    answer = CliRunner().invoke(app, ["statu"])
    assert answer.exit_code == 2
    assert "Did you mean 'status'?" in answer.output


def test_options_of_a_command_are_in_its_own_help() -> None:
    answer = CliRunner().invoke(app, ["source", "infer", "--help"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0
    assert "--data-dir" in answer.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("status", "--coordinator", "http://127.0.0.1:1"),
        ("sql", "--coordinator", "http://127.0.0.1:1", "-e", "SHOW STREAMS"),
        ("top", "--coordinator", "http://127.0.0.1:1"),
        ("explain", "--coordinator", "http://127.0.0.1:1", "q"),
        ("dead-letters", "--coordinator", "http://127.0.0.1:1", "s"),
    ],
    ids=" ".join,
)
def test_everyday_commands_load_few_libraries(arguments: tuple[str, ...], tmp_path: object) -> None:
    assert _loaded_by(arguments, tmp_path) == set()


def test_tab_loads_few_libraries(tmp_path: object) -> None:
    typed = {"_DSMS_COMPLETE": "complete_bash", "COMP_WORDS": "dsms st", "COMP_CWORD": "1"}
    program = "import os\nos.environ.update(" + repr(typed) + ")"
    assert _loaded_by((), tmp_path, program) == set()


def _loaded_by(arguments: tuple[str, ...], directory: object, before: str = "") -> set[str]:
    """The heavy libraries that a process has loaded when the command has ended. It fails where no coordinator is."""
    program = f"""
import sys
{before}
sys.argv = ["dsms", *{arguments!r}]
from dsms.cli.main import run
print("code", run())
print("loaded", *sorted(set({_HEAVY!r}) & set(sys.modules)))
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=str(directory), capture_output=True, text=True, timeout=120, check=True)
    last = ran.stdout.splitlines()[-1].split()
    assert last[0] == "loaded", ran.stdout + ran.stderr
    return set(last[1:])
