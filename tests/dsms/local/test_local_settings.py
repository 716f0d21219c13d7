"""The settings of a one-machine installation: precedence, checks, ports."""

import socket
from pathlib import Path

import pytest

from dsms.local.settings import LocalSettings, load_settings
from operators.core.errors import ConfigError


def test_the_defaults_are_the_usual_ports(tmp_path: Path):
    settings = load_settings({}, {"data_dir": tmp_path})
    assert (settings.kafka_port, settings.redis_port, settings.http_port) == (9092, 6379, 8080)
    assert settings.data_dir == tmp_path


def test_file_environment_and_options_override_in_this_order(tmp_path: Path):
    (tmp_path / "dsms.toml").write_text("kafka_port = 1\nredis_port = 2\nhttp_port = 3\n")
    environ = {"DSMS_DATA": str(tmp_path), "DSMS_REDIS_PORT": "20", "DSMS_HTTP_PORT": "30"}
    settings = load_settings(environ, {"http_port": 300, "kafka_port": None})
    assert (settings.kafka_port, settings.redis_port, settings.http_port) == (1, 20, 300)


def test_a_relative_data_directory_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load_settings({}).data_dir == tmp_path / ".dsms"


def test_an_unknown_key_is_refused_with_the_choices(tmp_path: Path):
    (tmp_path / "dsms.toml").write_text("kafka_prot = 1\n")
    with pytest.raises(ConfigError, match=r'unknown setting "kafka_prot" in .*dsms\.toml"; have: .*kafka_port'):
        load_settings({"DSMS_DATA": str(tmp_path)})


@pytest.mark.parametrize("value", ["70000", "-1", "many", "1.5"])
def test_an_invalid_value_names_its_source(tmp_path: Path, value: str):
    with pytest.raises(ConfigError, match=r"invalid setting in the environment.*kafka_port"):
        load_settings({"DSMS_DATA": str(tmp_path), "DSMS_KAFKA_PORT": value})


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_a_flag_in_the_environment_is_written_as_text(tmp_path: Path, text: str, expected: bool):
    settings = load_settings({"DSMS_DATA": str(tmp_path), "DSMS_SERVICES_ONLY": text})
    assert settings.services_only is expected


def test_a_broken_file_is_named(tmp_path: Path):
    (tmp_path / "dsms.toml").write_text("= 1")
    with pytest.raises(ConfigError, match=r'dsms\.toml" is not valid toml'):
        load_settings({"DSMS_DATA": str(tmp_path)})


def test_port_zero_picks_free_and_different_ports(tmp_path: Path):
    settings = LocalSettings(data_dir=tmp_path, kafka_port=0, redis_port=0, http_port=0).with_ports()
    ports = {settings.kafka_port, settings.redis_port, settings.http_port}
    assert len(ports) == 3
    assert 0 not in ports


def test_a_port_in_use_names_its_process_and_the_setting(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = LocalSettings(data_dir=tmp_path, kafka_port=0, redis_port=port, http_port=0)
        with pytest.raises(
            ConfigError, match=rf'port {port} on "127.0.0.1" is already in use by ".*\(process.*"redis_port"'
        ):
            settings.with_ports()


def test_two_services_on_one_port_are_refused(tmp_path: Path):
    settings = LocalSettings(data_dir=tmp_path, kafka_port=9092, redis_port=9092)
    with pytest.raises(ConfigError, match="have the same port"):
        settings.with_ports()


def test_a_password_in_the_settings_is_refused() -> None:
    """The settings are in the command lines of the services."""
    with pytest.raises(ConfigError, match='"registry_url" must not contain a password') as refused:
        load_settings({"DSMS_REGISTRY_URL": "http://ann:pw4711@host"})
    assert "pw4711" not in str(refused.value)
    assert load_settings({"DSMS_REGISTRY_URL": "http://ann:${secret:p}@host"}).registry_url is not None
