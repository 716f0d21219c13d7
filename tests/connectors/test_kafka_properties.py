"""Kafka client settings come from a file and the environment, are checked, and are not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.kafka.client.properties import kafka_settings
from operators.core.errors import ConfigError

TLS = """
# of the cluster
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.username=ann
sasl.password=a=b c
"""


def test_the_environment_is_above_the_file(tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text(TLS)
    environ = {"DSMS_KAFKA_CONFIG_SASL_PASSWORD": "other", "DSMS_KAFKA_PORT": "9092", "PATH": "/bin"}
    settings = kafka_settings("k:9093", file, environ)
    assert settings.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "other",
    }
    assert kafka_settings("k:9093", file, {}).base()["sasl.password"] == "a=b c"


def test_secrets_are_not_in_the_repr(tmp_path: Path):
    assert "hidden" not in repr(kafka_settings("k:1", None, {"DSMS_KAFKA_CONFIG_SASL_PASSWORD": "hidden"}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "line 1 of"),
        ("bootstrap.servers=x:1", '"bootstrap.servers"'),
        ("transactional.id=x", '"transactional.id"'),
        ("isolation.level=read_uncommitted", '"isolation.level"'),
        ("no.such.setting=1", "No such configuration property"),
        ("security.protocol=MAYBE", "Invalid value"),
    ],
)
def test_invalid_settings_are_refused_at_startup(tmp_path: Path, text: str, said: str):
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        kafka_settings("k:9093", file, {})


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="absent.properties"):
        kafka_settings("k:9093", tmp_path / "absent.properties", {})


def test_values_come_from_files_and_secrets(tmp_path: Path):
    file, password = tmp_path / "client.properties", tmp_path / "password"
    file.write_text("sasl.username=${secret:kafka-user}\nsasl.password=other\n")
    password.write_text("from a file\n")
    environ = {"DSMS_KAFKA_CONFIG_SASL_PASSWORD_FILE": str(password), "DSMS_SECRET_KAFKA_USER": "ann"}
    settings = kafka_settings("k:9093", file, environ)
    assert settings.properties == {"sasl.username": "ann", "sasl.password": "from a file"}
    with pytest.raises(ConfigError, match='"sasl.password" is set twice'):
        kafka_settings("k:9093", None, {**environ, "DSMS_KAFKA_CONFIG_SASL_PASSWORD": "x"})
    own_name = {"DSMS_KAFKA_CONFIG_SASL_OAUTHBEARER_ASSERTION_FILE": str(password)}
    assert kafka_settings("k:9093", None, own_name).properties == {"sasl.oauthbearer.assertion.file": str(password)}
