"""The settings of a one-machine installation.

They come from four places, of which a later one overrides an earlier one: the defaults, `dsms.toml` in the data
directory, the environment (`DSMS_KAFKA_PORT` for `kafka_port`), and the options of the command line. Unknown keys are
refused.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from connectors.credentials.secrets import check_no_secret
from dsms.local.disk_reserve import DiskReserve
from dsms.local.encoding import convert
from dsms.local.ports import claim_port
from dsms.model.sizes import parse_size
from operators.core.errors import ConfigError, UserError

FILE_NAME = "dsms.toml"
DEFAULT_DATA_DIR = ".dsms"

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=64)]


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which services `dsms up` starts, and where. Port 0 picks a free one.

    >>> LocalSettings(data_dir=Path("/d"), http_port=8081).coordinator_url
    'http://127.0.0.1:8081'
    """

    data_dir: Path
    host: str = "127.0.0.1"
    kafka_port: Port = 9092
    redis_port: Port = 6379
    http_port: Port = 8080
    postgres_port: Port | None = None
    """A port for psql and other clients of PostgreSQL; by default there is none, and 0 picks a free one."""
    cluster: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]+$")] = "local"
    registry_url: str | None = None
    """An external schema registry, instead of the coordinator's own."""
    tokens: Path | None = None
    """A file of API tokens (`dsms token`) instead of the one in the data directory. Then the project's own programs
    need a token in DSMS_TOKEN.
    """
    without_token: bool = False
    """Whether every program on the machine may call the coordinator without a token."""
    python: bool = False
    """Whether functions and aggregates in Python may be deployed, which executors run."""
    python_sandbox: Literal["require", "prefer", "off"] = "require"
    """How executors run Python code: `require` only in a sandbox, `prefer` with the parts of the sandbox that the
    platform supports, `off` without one.
    """
    load_dir: Path | None = None
    """A directory of files that COPY may read; none by default."""
    load_databases: bool = False
    """Whether LOAD TABLE may connect to databases."""
    sinks: str = ""
    """Directories and URLs, separated by commas, below which CREATE SINK may write; none by default."""
    limits: str = ""
    """Limits of statements other than the defaults, as NAME=NUMBER separated by spaces."""
    executors: Count = 1
    state_memory: str = "64 MB"
    """The most state that an executor keeps in Redis; the rest is on disk alone, which costs less. `none`: no limit."""
    disk_reserve: str = "256 MB"
    """The space that must be free on the disk: with less, all services stop until twice as much is free. `none`: no
    limit."""
    broker_heap_mb: Annotated[int, msgspec.Meta(ge=256)] = 768
    services_only: bool = False
    """Whether only Kafka and Redis are started, without coordinator and executors."""

    @property
    def disk(self) -> DiskReserve | None:
        """The free disk space that the services need; None without a limit. Raises UserError if it is not a size."""
        reserve = parse_size(self.disk_reserve, "disk_reserve")
        return None if reserve is None else DiskReserve(self.data_dir, reserve)

    @property
    def kafka_address(self) -> str:
        """The address for `bootstrap.servers` of clients."""
        return f"{self.host}:{self.kafka_port}"

    @property
    def redis_url(self) -> str:
        """The URL of Redis."""
        return f"redis://{self.host}:{self.redis_port}/0"

    @property
    def coordinator_url(self) -> str:
        """The URL of the coordinator."""
        return f"http://{self.host}:{self.http_port}"

    @property
    def makes_token(self) -> bool:
        """Whether `dsms up` creates the token that its coordinator accepts."""
        return not (self.services_only or self.without_token or self.tokens)

    @property
    def postgres_address(self) -> str | None:
        """The address for clients of PostgreSQL; None without a port for them."""
        return None if self.postgres_port is None else f"{self.host}:{self.postgres_port}"

    def with_ports(self) -> "LocalSettings":
        """These settings with a free port for every 0. Raises ConfigError if a port is in use or given twice."""
        ours = () if self.services_only else ("http_port", "postgres_port")
        used = [port for port in ("kafka_port", "redis_port", *ours) if getattr(self, port) is not None]
        given = [getattr(self, port) for port in used if getattr(self, port)]
        if len(set(given)) < len(given):
            ports = ", ".join(map(str, given))
            raise ConfigError(f"two services have the same port: {ports}", hint="set different ports")
        return msgspec.structs.replace(self, **{p: claim_port(self.host, getattr(self, p), p) for p in used})


def _checked(settings: LocalSettings) -> LocalSettings:
    """Returns the settings. Raises ConfigError if `disk_reserve` is not a size, or if `registry_url`, which is in the
    command lines of the services, has a password.
    """
    try:
        _ = settings.disk
        check_no_secret(settings.registry_url or "", '"registry_url"')
    except UserError as error:
        raise ConfigError(error.message, hint=error.hint) from error
    return settings


def load_settings(environ: Mapping[str, str], options: Mapping[str, Any] | None = None) -> LocalSettings:
    """The settings from all sources; an option that is None is not set.

    >>> load_settings({"DSMS_DATA": "/nowhere", "DSMS_HTTP_PORT": "81"}, {"kafka_port": 0}).http_port
    81
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    data_dir = Path(given.pop("data_dir", None) or environ.get("DSMS_DATA") or DEFAULT_DATA_DIR).absolute()
    file = data_dir / FILE_NAME
    sources = {f'"{file}"': _from_file(file), "the environment": _from_environ(environ), "the options": given}
    merged: dict[str, Any] = {"data_dir": str(data_dir)}
    for source, values in sources.items():
        _check_keys(source, values)
        merged |= values
        _convert(source, merged)
    return _checked(_convert("the settings", merged))


def _keys() -> list[str]:
    return [name for name in LocalSettings.__struct_fields__ if name != "data_dir"]


def _from_file(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f'"{file}" is not valid toml: {error}') from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: environ[name] for key in _keys() if (name := f"DSMS_{key.upper()}") in environ}


def _check_keys(source: str, values: Mapping[str, Any]) -> None:
    unknown = [key for key in values if key not in _keys()]
    if unknown:
        raise ConfigError(f'unknown setting "{unknown[0]}" in {source}', hint=f"have: {', '.join(_keys())}")


def _convert(source: str, values: dict[str, Any]) -> LocalSettings:
    try:
        return convert(values, LocalSettings)
    except msgspec.ValidationError as error:
        reason = str(error)
        raise ConfigError(f"invalid setting in {source}: {reason[:1].lower()}{reason[1:]}") from error
