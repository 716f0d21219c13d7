"""`dsms function`: it deploys a function with a statement that a session can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dsms.cli import function as commands
from dsms.model.statement_result import StatementResult
from dsms.testing import LocalSession
from operators.core.errors import SqlError

CLASS = """
from shares.base import Start

class Total(Start):
    def iterate(self, x):
        self.total += x
    def terminate(self):
        return self.total
"""


class Client:
    """Runs statements in a session."""

    def __init__(self, session: LocalSession) -> None:
        self._session = session

    def execute(self, sql: str) -> list[StatementResult]:
        return self._session.run(sql)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> LocalSession:
    made = LocalSession()

    @contextmanager
    def connect(*_: object) -> Iterator[Client]:
        yield Client(made)

    monkeypatch.setattr(commands, "connect", connect)
    return made


def run(*arguments: str) -> str:
    result = CliRunner().invoke(commands.function, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_an_aggregate_of_several_modules(session: LocalSession, tmp_path: Path) -> None:
    (tmp_path / "shares").mkdir()
    (tmp_path / "shares" / "base.py").write_text("class Start:\n    total = 0\n")
    (tmp_path / "shares" / "total.py").write_text(CLASS)
    run("deploy", str(tmp_path), "total(x BIGINT) RETURNS BIGINT", "--aggregate", "--handler", "shares.total:Total")
    session.execute("CREATE STREAM S (x BIGINT, at BIGINT) ORDER BY at SOURCE 's'")
    session.execute("CREATE STREAM V AS SELECT total(x) OVER (ROWS 1 PRECEDING) AS t FROM S")
    session.push("S_source", [{"x": x, "at": at} for at, x in enumerate((1, 2, 5), 1)])
    session.advance(4)
    assert [row["t"] for _, row, _ in session.changes("V")] == [1, 3, 7]
    assert "python base" in run("list", "--aggregates", "--format", "json")
    session.execute("DROP STREAM V")
    run("drop", "total", "--aggregate")
    assert all(row["name"] != "total()" for row in session.execute("SHOW AGGREGATES"))


def test_a_function_of_one_module(session: LocalSession, tmp_path: Path) -> None:
    source = tmp_path / "twice.py"
    source.write_text("def twice(n): return [2 * v for v in n.to_pylist()]\n")
    run("deploy", str(source), "twice(n BIGINT) RETURNS BIGINT", "--requires", "pyarrow>=1")
    assert [row["name"] for row in session.execute("SHOW FUNCTIONS")] == ["twice"]
    assert "twice" in run("list", "--format", "json")
    run("drop", "twice")
    assert session.execute("SHOW FUNCTIONS") == []


def test_a_name_with_a_double_quote_is_one_name(session: LocalSession) -> None:
    with pytest.raises(SqlError, match='"f" CASCADE" is not a valid function name'):
        CliRunner().invoke(commands.function, ["drop", 'f" CASCADE'], catch_exceptions=False)
