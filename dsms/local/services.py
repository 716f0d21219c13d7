"""The services of a one-machine installation, in the order in which they are started."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import httpx

from dsms.local.access_token import TOKEN_FILE, TOKENS_FILE
from dsms.local.installed import local_broker, local_redis
from dsms.local.java import find_java
from dsms.local.process import ManagedProcess, ProcessSpec, never
from dsms.local.settings import LocalSettings

PROBE_TIMEOUT_S = 1.0


class Instance(Protocol):
    """A service that runs in a process of its own."""

    @property
    def pid(self) -> int | None: ...
    @property
    def alive(self) -> bool: ...
    def start(self, cancelled: Callable[[], bool] = never) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Service:
    """The name of a service, and a function that creates its instance, which the supervisor starts and watches."""

    name: str
    create: Callable[[LocalSettings, Mapping[str, str]], Instance]


def services(settings: LocalSettings) -> tuple[Service, ...]:
    """The services for the settings, each after the services that it needs.

    >>> from pathlib import Path
    >>> [service.name for service in services(LocalSettings(data_dir=Path("/d"), executors=2))]
    ['kafka', 'redis', 'coordinator', 'executor-1', 'executor-2']
    """
    backing = (Service("kafka", _kafka), Service("redis", _redis))
    if settings.services_only:
        return backing
    names = [f"executor-{number}" for number in range(1, settings.executors + 1)]
    executors = (Service(name, partial(_executor, name)) for name in names)
    return (*backing, Service("coordinator", _coordinator), *executors)


def coordinator_command(settings: LocalSettings) -> list[str]:
    """The command line of the coordinator; it is ready when GET /readyz answers 200."""
    return [
        *(sys.executable, "-m", "dsms.coordinator"),
        *("--kafka", settings.kafka_address),
        *("--redis", settings.redis_url),
        *("--http-port", str(settings.http_port)),
        *(["--postgres-port", str(settings.postgres_port)] if settings.postgres_port else []),
        *("--cluster", settings.cluster),
        *("--fragments", str(max(settings.executors, 1))),
        *_registry(settings),
        *_tokens(settings),
        *(["--load-dir", str(settings.load_dir.absolute())] if settings.load_dir else []),
        *(["--load-databases"] if settings.load_databases else []),
        *(["--python"] if settings.python else []),
        *(["--sinks", _absolute(settings.sinks)] if settings.sinks else []),
        *(["--limits", settings.limits] if settings.limits else []),
    ]


def _absolute(sinks: str) -> str:
    """The prefixes of sinks, with directories as absolute paths.

    >>> _absolute("/lake, delta:s3://lake/hot")
    '/lake,delta:s3://lake/hot'
    """
    prefixes = [part.strip() for part in sinks.split(",")]
    return ",".join(part if ":" in part else str(Path(part).absolute()) for part in prefixes if part)


def _tokens(settings: LocalSettings) -> list[str]:
    if settings.makes_token:
        return ["--tokens", str(settings.data_dir / TOKENS_FILE)]
    return ["--tokens", str(settings.tokens.absolute())] if settings.tokens else []


def _registry(settings: LocalSettings) -> list[str]:
    return ["--registry", settings.registry_url] if settings.registry_url else []


def executor_command(settings: LocalSettings, name: str) -> list[str]:
    """The command line of the executor of this name."""
    return [
        *(sys.executable, "-m", "dsms.executor"),
        *("--kafka", settings.kafka_address),
        *("--redis", settings.redis_url),
        *("--coordinator", settings.coordinator_url),
        *("--cluster", settings.cluster),
        *("--data-dir", str(settings.data_dir / name)),
        *("--id", name),
        *("--state-dir", str(settings.data_dir / "state"), "--state-memory", settings.state_memory),
        *_registry(settings),
        *([] if settings.python_sandbox == "require" else ["--python-sandbox", settings.python_sandbox]),
    ]


def http_ready(url: str) -> bool:
    """Whether GET answers 200; the address is on this machine, so the environment's proxies are not used."""
    try:
        return httpx.get(url, timeout=PROBE_TIMEOUT_S, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _kafka(settings: LocalSettings, environ: Mapping[str, str]) -> Instance:
    directory = settings.data_dir / "kafka"
    return local_broker(
        directory, environ, host=settings.host, port=settings.kafka_port, heap_mb=settings.broker_heap_mb
    )


def _redis(settings: LocalSettings, environ: Mapping[str, str]) -> Instance:
    return local_redis(settings.data_dir / "redis", environ, host=settings.host, port=settings.redis_port)


def _coordinator(settings: LocalSettings, environ: Mapping[str, str]) -> Instance:
    command = coordinator_command(settings)
    return _program(
        "coordinator", command, settings, environ, partial(http_ready, f"{settings.coordinator_url}/readyz")
    )


def _executor(name: str, settings: LocalSettings, environ: Mapping[str, str]) -> Instance:
    return _program(name, executor_command(settings, name), settings, environ, lambda: True)


def _program(
    name: str, command: list[str], settings: LocalSettings, environ: Mapping[str, str], ready: Callable[[], bool]
) -> Instance:
    java_home = find_java(environ).resolve().parent.parent
    if settings.makes_token:
        others = {key: value for key, value in environ.items() if key not in ("DSMS_TOKEN", "DSMS_TOKENS")}
        environ = {**others, "DSMS_TOKEN_FILE": str(settings.data_dir / TOKEN_FILE)}
    spec = ProcessSpec(
        name=name,
        argv=tuple(command),
        log_file=settings.data_dir / f"{name}.log",
        ready=ready,
        env={**environ, "JAVA_HOME": str(java_home), "PYTHONUNBUFFERED": "1"},
    )
    return ManagedProcess(spec)
