"""Secrets by reference: where their values come from, and which texts are refused because they contain a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.credentials.secrets import (
    NoSecret,
    check_arguments,
    check_no_secret,
    from_files,
    resolved,
    resolved_url,
)
from operators.core.errors import ConfigError, UserError
from operators.core.masking import masked_urls


def test_a_value_is_in_a_variable_or_a_file_or_a_directory(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("from a file\n")
    (tmp_path / "pw.db").write_text("from the directory")
    environ = {
        "DSMS_SECRET_A": "from a variable",
        "DSMS_SECRET_MY_ONE_FILE": str(tmp_path / "one"),
        "DSMS_SECRETS_DIR": str(tmp_path),
    }
    text = "${secret:a} ${secret:my-one} ${secret:pw.db} ${other:a} $a"
    assert resolved(text, environ) == "from a variable from a file from the directory ${other:a} $a"


@pytest.mark.parametrize("name", ["gone", "../one", "", "a/b", ".hidden"])
def test_missing_secret_is_named_and_no_other_file_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "one").write_text("x")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / ".hidden").write_text("x")
    with pytest.raises(NoSecret, match=f'"{name}"'):
        resolved(f"${{secret:{name}}}", {"DSMS_SECRETS_DIR": str(tmp_path / "secrets")})


def test_passwords_are_quoted_in_urls() -> None:
    environ = {"DSMS_SECRET_P": "a:b@c/d?%20 ü"}
    assert resolved_url("redis://:${secret:p}@h/0", environ) == "redis://:a%3Ab%40c%2Fd%3F%2520%20%C3%BC@h/0"


@pytest.mark.parametrize(
    "text", ["http://u:pw@h", "postgresql://h/x?user=a&password=pw", "http://${secret:u}:pw@h", "odbc:SECRET=pw"]
)
def test_a_password_in_a_statement_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UserError, match="must not contain a password") as refused:
        check_no_secret(text, "REGISTRY")
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "http://h:8081",
        "http://u@h",
        "http://${secret:u}:${secret:p}@h",
        "sqlite:////a/b",
        "mysql://h/x?password=${secret:p}",
    ],
)
def test_references_to_secrets_are_accepted(text: str) -> None:
    check_no_secret(text, "REGISTRY")
    check_arguments(["--redis", text])


def test_a_password_in_a_command_line_is_refused() -> None:
    with pytest.raises(ConfigError, match="command line") as refused:
        check_arguments(["--kafka", "k:9092", "--redis=redis://:pw4711@h"])
    assert "pw4711" not in str(refused.value)


def test_settings_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://:pw@h\n")
    assert from_files({"DSMS_REDIS_FILE": str(file), "DSMS_HOST_FILE": "x"}) == {"DSMS_REDIS": "redis://:pw@h"}
    with pytest.raises(ConfigError, match='both "DSMS_REDIS" and "DSMS_REDIS_FILE"'):
        from_files({"DSMS_REDIS_FILE": str(file), "DSMS_REDIS": "x"})
    with pytest.raises(ConfigError, match="cannot read the secret in .*: FileNotFoundError"):
        from_files({"DSMS_TOKEN_FILE": str(tmp_path / "gone")})


def test_only_the_password_of_a_url_is_masked() -> None:
    assert masked_urls("x WHERE token = 'a' REGISTRY 'http://u:p@h/x'") == (
        "x WHERE token = 'a' REGISTRY 'http://u:***@h/x'"
    )
