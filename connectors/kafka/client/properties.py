"""Reads Kafka client settings from a file and the environment, because a command line would expose secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from connectors.credentials.secrets import resolved, secret_file
from connectors.kafka.client.config import KafkaSettings
from operators.core.errors import ConfigError

ENVIRONMENT_PREFIX = "DSMS_KAFKA_CONFIG_"
_FILE = ".file"
#: Settings whose own names end in `_FILE`.
_NAMED_FILE = frozenset(
    {
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
    }
)
#: Settings that users cannot change, because exactly-once results depend on them. The address has its own option.
RESERVED = frozenset(
    {
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "partitioner",
        "transactional.id",
    }
)


def kafka_settings(bootstrap: str, file: Path | None, environ: Mapping[str, str]) -> KafkaSettings:
    """The settings of all clients: those of the file, overridden by those of the environment. References to secrets are
    replaced by their values. Raises ConfigError if no client can be created with these settings.

    >>> kafka_settings("k:9093", None, {"DSMS_KAFKA_CONFIG_SECURITY_PROTOCOL": "SSL"}).properties
    {'security.protocol': 'SSL'}
    """
    unresolved = {**(from_file(file) if file else {}), **from_environment(environ)}
    settings = KafkaSettings(bootstrap, {name: resolved(value, environ) for name, value in unresolved.items()})
    try:
        settings.admin()
    except KafkaException as error:
        raise ConfigError(
            f"invalid kafka settings: {error.args[0].str()}",
            hint="names and values are those of librdkafka; keys and certificates are PEM",
        ) from error
    return settings


def from_file(file: Path) -> dict[str, str]:
    """The settings in a file of NAME=VALUE lines. Raises ConfigError if the file is unreadable or invalid."""
    try:
        return parsed(file.read_text("utf-8").splitlines(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'cannot read the kafka settings in "{file}": {error}') from error


def parsed(lines: Iterable[str], name: str) -> dict[str, str]:
    r"""The settings in NAME=VALUE lines. A line that begins with # or ! is a comment; \n in a PEM text is a new line.

    >>> parsed(["# for all", "", "sasl.username = ann", r"ssl.ca.pem=BEGIN\nEND"], "f")
    {'sasl.username': 'ann', 'ssl.ca.pem': 'BEGIN\nEND'}
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and text[0] not in "#!":
            key, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f'line {number} of "{name}" is not NAME=VALUE')
            settings[key.strip()] = _value(key.strip(), value.strip())
    return _checked(settings, f'"{name}"')


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings in environment variables: DSMS_KAFKA_CONFIG_SASL_USERNAME has the value of sasl.username, and
    DSMS_KAFKA_CONFIG_SASL_PASSWORD_FILE names a file with the value of sasl.password.
    """
    names = {
        name: name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        for name in environ
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    settings: dict[str, str] = {}
    for name, key in names.items():
        filed = key.endswith(_FILE) and key not in _NAMED_FILE
        known = key.removesuffix(_FILE) if filed else key
        if known in settings:
            raise ConfigError(f'kafka setting "{known}" is set twice in the environment')
        settings[known] = _value(known, secret_file(Path(environ[name])) if filed else environ[name])
    return _checked(settings, "the environment")


def _value(key: str, text: str) -> str:
    return text.replace("\\n", "\n") if key.endswith(".pem") else text


def _checked(settings: dict[str, str], where: str) -> dict[str, str]:
    if refused := sorted(RESERVED & settings.keys()):
        raise ConfigError(f'kafka setting "{refused[0]}" in {where} is reserved and cannot be changed')
    return settings
