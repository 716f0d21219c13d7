"""The token of `dsms up`: who can read it, which processes know it, and to which coordinator it is sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsms.client.retrying import connection
from dsms.local.access_token import OWNER, TOKEN_FILE, console_url, local_token, made_tokens
from dsms.local.services import services
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState, process_started, write_state
from dsms.model.tokens import entry, hashed, new_token, tokens_of

URL = "http://127.0.0.1:8080"


def running(data_dir: Path, **changes: object) -> LocalState:
    """The state of services whose supervisor is this process."""
    told = {
        "data_dir": data_dir, "phase": "running", "supervisor_pid": os.getpid(),
        "supervisor_started": process_started(os.getpid()), "cluster": "local", "kafka": "", "redis": "",
        "coordinator": URL, "token": data_dir / TOKEN_FILE,
    }  # fmt: skip
    state = LocalState(**(told | changes))
    write_state(state)
    return state


def test_token_is_readable_by_its_owner_and_the_coordinator_stores_its_hash(tmp_path: Path) -> None:
    tokens = made_tokens(tmp_path)
    text = (tmp_path / TOKEN_FILE).read_text().strip()
    (known,) = tokens_of(tokens)
    assert (known.name, known.role, known.sha256) == (OWNER, "administrator", hashed(text))
    assert text not in tokens.read_text()
    assert [file.stat().st_mode & 0o777 for file in (tokens, tmp_path / TOKEN_FILE)] == [0o600, 0o600]


def test_token_and_added_tokens_survive_a_restart(tmp_path: Path) -> None:
    tokens = made_tokens(tmp_path)
    text = (tmp_path / TOKEN_FILE).read_text()
    _, ann = new_token("ann", "reader", read=("orders*",))
    with tokens.open("a") as file:
        file.write(entry(ann) + "\n")
    made_tokens(tmp_path)
    assert (tmp_path / TOKEN_FILE).read_text() == text and tokens_of(tokens)[1] == ann
    (tmp_path / TOKEN_FILE).unlink()
    made_tokens(tmp_path)
    first, second = tokens_of(tokens)
    assert first == ann and second.sha256 == hashed((tmp_path / TOKEN_FILE).read_text().strip()) != hashed(text.strip())


def test_token_is_sent_only_to_the_coordinator_of_its_directory(tmp_path: Path) -> None:
    made_tokens(tmp_path)
    running(tmp_path)
    text = (tmp_path / TOKEN_FILE).read_text().strip()
    assert local_token(URL, tmp_path) == local_token("http://localhost:8080/", tmp_path) == text
    assert local_token("http://127.0.0.1:8081", tmp_path) is None
    assert local_token("http://evil.example:8080", tmp_path) is None
    running(tmp_path, token=None)
    assert local_token(URL, tmp_path) is None
    running(tmp_path, supervisor_started=1.0)
    assert local_token(URL, tmp_path) is None
    assert local_token(URL, tmp_path / "nothing") is None


def test_clients_find_the_local_token_unless_another_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_tokens(tmp_path)
    running(tmp_path)
    monkeypatch.setenv("DSMS_DATA", str(tmp_path))
    monkeypatch.delenv("DSMS_TOKEN", raising=False)
    text = (tmp_path / TOKEN_FILE).read_text().strip()
    assert connection(URL, None, 1.0)["headers"] == {"Authorization": f"Bearer {text}"}
    assert connection(URL, "mine", 1.0)["headers"] == {"Authorization": "Bearer mine"}
    monkeypatch.setenv("DSMS_TOKEN", "theirs")
    assert connection(URL, None, 1.0)["headers"] == {"Authorization": "Bearer theirs"}


def test_the_link_of_the_console_signs_in(tmp_path: Path) -> None:
    made_tokens(tmp_path)
    text = (tmp_path / TOKEN_FILE).read_text().strip()
    assert console_url(running(tmp_path)) == f"{URL}/console/#token={text}"
    assert console_url(running(tmp_path, token=None)) == f"{URL}/console/"
    assert console_url(running(tmp_path, coordinator=None)) is None


@pytest.mark.parametrize("name", ["coordinator", "executor-1"])
def test_services_get_the_token_only_by_file_name(tmp_path: Path, name: str) -> None:
    environ = {"DSMS_TOKEN": "of another cluster", "JAVA_HOME": os.environ.get("JAVA_HOME", ""), **os.environ}
    service = next(service for service in services(LocalSettings(data_dir=tmp_path)) if service.name == name)
    spec = service.create(LocalSettings(data_dir=tmp_path), environ).spec  # type: ignore[attr-defined]
    assert "DSMS_TOKEN" not in spec.env and spec.env["DSMS_TOKEN_FILE"] == str(tmp_path / TOKEN_FILE)
    assert (str(tmp_path / "tokens.toml") in spec.argv) == (name == "coordinator")


@pytest.mark.parametrize("other", [{"without_token": True}, {"tokens": Path("mine.toml")}])
def test_other_settings_create_no_token(tmp_path: Path, other: dict[str, object]) -> None:
    settings = LocalSettings(data_dir=tmp_path, **other)  # type: ignore[arg-type]
    assert not settings.makes_token
    for service in services(settings)[2:]:
        spec = service.create(settings, {**os.environ, "DSMS_TOKEN": "mine"}).spec  # type: ignore[attr-defined]
        assert spec.env["DSMS_TOKEN"] == "mine" and "DSMS_TOKEN_FILE" not in spec.env
