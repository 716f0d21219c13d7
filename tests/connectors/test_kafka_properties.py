"""Client settings of Kafka come from a file and the environment, are checked, and are not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.kafka.properties import kafka_settings
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


def test_secrets_are_not_shown(tmp_path: Path):
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
def test_what_is_wrong_is_refused_at_the_start(tmp_path: Path, text: str, said: str):
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        kafka_settings("k:9093", file, {})


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="absent.properties"):
        kafka_settings("k:9093", tmp_path / "absent.properties", {})
