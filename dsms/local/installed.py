"""Creates Kafka and Redis servers from programs installed on this machine, for the supervisor, tests and benchmarks."""

from collections.abc import Mapping
from pathlib import Path

from dsms.local.artifacts import Report, Resolver, cache_dir, silent
from dsms.local.broker import Broker, BrokerConfig
from dsms.local.java import find_java
from dsms.local.redis_server import RedisConfig, RedisServer, find_redis


def local_broker(
    data_dir: Path,
    environ: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    heap_mb: int = 768,
    report: Report = silent,
) -> Broker:
    """A broker with its data in `data_dir`, which is not started yet. Like Kafka's own scripts, it takes JVM options
    from KAFKA_JVM_PERFORMANCE_OPTS.
    """
    java = find_java(environ)
    jars = Resolver(java, cache_dir(environ), environ).broker_jars(report)
    options = tuple(environ.get("KAFKA_JVM_PERFORMANCE_OPTS", "").split())
    config = BrokerConfig(data_dir.absolute(), java, jars, host=host, port=port, heap_mb=heap_mb, jvm_options=options)
    return Broker(config)


def local_redis(data_dir: Path, environ: Mapping[str, str], *, host: str = "127.0.0.1", port: int = 0) -> RedisServer:
    """A Redis server with its data in `data_dir`, which is not started yet."""
    return RedisServer(RedisConfig(data_dir.absolute(), find_redis(environ), host=host, port=port))
