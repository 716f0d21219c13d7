"""The command line with a real HTTP server and an in-memory coordinator."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

from dsms.cli.completion import SqlCompleter
from dsms.cli.main import app, run
from dsms.cli.shell import Shell
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.statements.fragment_stories import UnknownFragment
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving


@pytest.fixture(scope="module")
def service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="module")
def url(service) -> Iterator[str]:
    with serving(create_app(service, SchemaRegistry())) as address:
        yield address


@pytest.fixture
def dsms(url, capsys, monkeypatch, tmp_path):
    """Runs a command; returns its exit code, output and errors."""
    monkeypatch.setenv("DSMS_COORDINATOR", url)
    monkeypatch.setenv("DSMS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        code = run(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_statements_from_an_option(dsms):
    code, out, err = dsms("sql", "-e", "CREATE STREAM s OVER readings KEY room")
    assert (code, err) == (0, "")
    assert out.splitlines() == ['stream "s" created', "  note: window: unbounded"]


def test_statements_from_a_file(dsms, tmp_path, service):
    file = tmp_path / "q.sql"
    file.write_text("SHOW STREAMS;\n")
    code, out, _ = dsms("sql", "-f", str(file))
    assert code == 0 and "hot" in out and "1.50" in out
    assert service.executed[-1] == "SHOW STREAMS;\n"


def test_rows_as_json(dsms):
    code, out, _ = dsms("sql", "-e", "SHOW STREAMS", "--format", "json")
    assert code == 0
    assert json.loads(out)["rows"] == [["hot", "1.50"]]


def test_an_error_points_into_the_text(dsms):
    code, out, err = dsms("sql", "-e", "SELECT * FROM nope")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        'error: line 1, column 15: stream "nope" not found',
        "  SELECT * FROM nope",
        "                ^",
        "hint: have: readings",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["sql", "-e", "outage"], 3),
        (["sql", "-e", "defect"], 1),
        (["sql", "-e", "x", "-f", __file__], 2),
        (["sql", "--nonsense"], 2),
        (["consume", "x"], 1),
        (["dead-letters", "x"], 1),
        (["sql", "-e", "x", "--coordinator", "http://127.0.0.1:1"], 3),
        (["--help"], 0),
    ],
)
def test_exit_codes(dsms, arguments, code):
    assert dsms(*arguments)[0] == code


def test_status_and_down_without_a_cluster(dsms, monkeypatch):
    monkeypatch.delenv("DSMS_COORDINATOR")
    code, _, err = dsms("status")
    assert code == 3
    assert "no cluster is running in" in err and 'hint: start one with "dsms up"' in err
    assert dsms("down")[0] == 0


def test_status_of_a_coordinator(dsms):
    code, out, _ = dsms("status", "--format", "json")
    assert (code, json.loads(out)["cluster"]["kafka"]) == (0, "localhost:1")
    shown = dsms("status")[1]
    assert "running" in shown and "kafka       localhost:1" in shown and "queries have read all records" in shown


def test_explain_prints_the_plan_as_it_is(dsms, service):
    assert dsms("explain", "hot")[1].splitlines()[0] == "filter [t > 30]"
    dsms("explain", "--analyze", "hot")
    assert service.executed[-2:] == ["EXPLAIN hot", "EXPLAIN ANALYZE hot"]


def test_replay_quotes_the_name_of_the_source(dsms, service):
    assert dsms("replay", 'a "b"', "--where", "late")[0] == 0
    assert service.executed[-1] == 'REPLAY DEAD LETTERS OF "a ""b""" WHERE late'


def test_dead_letters(dsms):
    code, out, _ = dsms("dead-letters", "readings", "--format", "json")
    assert (code, json.loads(out)) == (0, {"partition": 0, "offset": 7, "reason": "not JSON", "value": "/3s="})
    assert "not JSON" in dsms("dead-letters", "readings")[1]


@pytest.mark.parametrize(
    "command", ["up", "status", "top", "down", "sql", "publish", "consume", "explain", "dead-letters"]
)
def test_every_help_has_an_example(command):
    answer = CliRunner().invoke(app, [command, "--help"])
    assert answer.exit_code == 0
    assert f"dsms {command}" in answer.output.split("Example:")[1]


def test_a_script_from_a_pipe(url):
    done = subprocess.run(
        [sys.executable, "-c", "from dsms.cli.main import main; main()", "sql", "--coordinator", url],
        input="SHOW STREAMS;",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "hot" in done.stdout


def test_in_memory(dsms):
    code, out, err = dsms("sql", "--in-memory", "-e", "SELECT * FROM nowhere")
    assert (code, out) == (1, "")
    assert "nowhere" in err and "^" in err


def typed(tmp_path, text):
    answered = []
    with create_pipe_input() as keys:
        keys.send_text(text)
        Shell(tmp_path / "history", lambda: ["hot"], answered.append, (keys, DummyOutput())).run()
    return answered


def test_ctrl_c_while_a_statement_runs_keeps_the_shell_open(tmp_path, capsys):
    answered = []

    def answer(text):
        answered.append(text)
        if text == "SELECT 1;":
            raise KeyboardInterrupt

    with create_pipe_input() as keys:
        keys.send_text("SELECT 1;\nSELECT 2;\n\\q\n")
        Shell(tmp_path / "history", lambda: [], answer, (keys, DummyOutput())).run()
    assert answered == ["SELECT 1;", "SELECT 2;"]
    assert "no longer waiting" in capsys.readouterr().err


def test_shell_reads_to_the_semicolon_and_keeps_history(tmp_path):
    assert typed(tmp_path, "SELECT 1,\n';'\n;\n\\d\n\\d hot\n\\?\n\\q\n") == [
        "SELECT 1,\n';'\n;",
        "SHOW SOURCES; SHOW STREAMS;",
        "DESCRIBE hot;",
    ]
    assert "SELECT 1," in (tmp_path / "history").read_text()


def test_shell_ends_with_the_input_and_drops_a_line_on_interrupt(tmp_path):
    assert typed(tmp_path, "SELECT \x03SHOW x;\n\x04") == ["SHOW x;"]


@pytest.mark.parametrize(("text", "words"), [("sel", ["select"]), ("SELECT H", ["hot", "HAVING"]), ("", [])])
def test_completion(text, words):
    completer = SqlCompleter(lambda: ["hot", "readings"])
    assert [c.text for c in completer.get_completions(Document(text), None)] == words


@dataclass(frozen=True)
class StoryTables:
    """The control tables of a cluster whose fragment "0" has a story."""

    events: tuple = (
        {"at": "2026-11-29T07:00:00+00:00", "executor": "e1", "event": "claimed", "text": "claimed under lease 7"},
        {"at": "2026-11-29T07:00:01+00:00", "executor": "e1", "event": "stopped", "text": "stopped"},
    )
    execute: object = None
    principal: object = None

    def story(self, fragment, last):
        if fragment != "0":
            raise UnknownFragment("fragment", fragment, ["0"])
        return self.events[-last:]


def test_the_story_of_a_fragment(dsms, service, monkeypatch):
    monkeypatch.setattr(service, "control", StoryTables(), raising=False)
    assert dsms("story", "0") == (
        0,
        "2026-11-29T07:00:00+00:00  e1  claimed under lease 7\n2026-11-29T07:00:01+00:00  e1  stopped\n",
        "",
    )
    code, out, _ = dsms("story", "0", "--last", "1", "--json")
    assert (code, [json.loads(line)["event"] for line in out.splitlines()]) == (0, ["stopped"])
    code, out, err = dsms("story", "a/b")
    assert (code, out) == (1, "") and err.splitlines() == ['error: fragment "a/b" not found', "hint: have: 0"]


def test_a_fragment_of_which_nothing_is_known(dsms, service, monkeypatch):
    monkeypatch.setattr(service, "control", StoryTables(()), raising=False)
    assert dsms("story", "0") == (0, "", 'no events of fragment "0" are known\n')


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("consume h", ["hot"]), ("consume x", []), ("explain h", ["hot"]), ("dead-letters r", ["readings"])],
)
def test_tab_completes_names_of_objects(url, tmp_path, typed, completed):
    words = f"dsms {typed}"
    typing = {"_DSMS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2", "DSMS_COORDINATOR": url}
    answer = CliRunner().invoke(app, [], prog_name="dsms", env=typing)
    assert answer.stdout.split() == completed


def test_tab_without_a_coordinator_completes_nothing(tmp_path):
    typing = {"_DSMS_COMPLETE": "complete_bash", "COMP_WORDS": "dsms consume h", "COMP_CWORD": "2"}
    answer = CliRunner().invoke(app, [], prog_name="dsms", env={**typing, "DSMS_COORDINATOR": "http://127.0.0.1:1"})
    assert (answer.stdout.strip(), answer.stderr) == ("", "")


@pytest.mark.parametrize("command", ["up", "sql", "status", "down"])
def test_a_data_directory_that_cannot_be_used_is_named(capsys, command):
    assert run([command, "--data-dir", "/dev/null/data"]) == 1
    assert 'cannot use "/dev/null/data' in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("publish", "t", "--advance", "soon"), ("consume", "hot", "--until", "soon")])
def test_an_option_that_is_no_instant_says_what_is_expected(dsms, arguments):
    code, _, err = dsms(*arguments)
    assert code == 2
    assert "is not an instant; give a whole number" in " ".join(err.replace("│", " ").split())
