"""Searches for a cluster's secrets in places that must not contain any: files, command lines, topics and Redis."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import redis
from confluent_kafka.admin import AdminClient

from integration.kafka_log import read_committed

#: The only directory, below that of a test, in which secrets may be.
KEPT = "given"


def found_in_files(directory: Path, marks: dict[str, bytes]) -> list[str]:
    """The marks in the files below a directory, with the names of the files."""
    files = [path for path in directory.rglob("*") if path.is_file() and KEPT not in path.parts]
    return [f"{name} in {path}" for path in files for name in _marks(_bytes(path), marks)]


def found_in_command_lines(pids: list[int], marks: dict[str, bytes]) -> list[str]:
    """The marks in the command lines of processes and their descendants."""
    roots = [psutil.Process(pid) for pid in pids]
    processes = [process for root in roots for process in (root, *root.children(recursive=True))]
    lines = {process.pid: Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in processes if _lives(process)}
    assert len(lines) > len(pids)
    return [f"{name} in the command line of {pid}" for pid, line in lines.items() for name in _marks(line, marks)]


def found_in_topics(kafka: str, marks: dict[str, bytes]) -> list[str]:
    """The marks in the keys, values and headers of all records of all topics."""
    found = [f"{name} in topic {topic}" for topic, content in _records(kafka) for name in _marks(content, marks)]
    return sorted(set(found))


def found_in_redis(client: redis.Redis, marks: dict[str, bytes]) -> list[str]:
    """The marks in the keys and values of a Redis."""
    return [f"{name} in {key!r}" for key in client.scan_iter() for name in _marks(key + _value(client, key), marks)]


def _marks(content: bytes, marks: dict[str, bytes]) -> list[str]:
    return [name for name, mark in marks.items() if mark in content]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # an executor has removed the file meanwhile
        return b""


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _value(client: redis.Redis, key: bytes) -> bytes:
    match client.type(key):
        case b"string":
            return client.get(key) or b""
        case b"hash":
            return repr(client.hgetall(key)).encode()
        case b"set":
            return repr(client.smembers(key)).encode()
        case b"zset":
            return repr(client.zrange(key, 0, -1)).encode()
        case b"list":
            return repr(client.lrange(key, 0, -1)).encode()
        case kind:
            raise AssertionError(f"{key!r} is a {kind!r}")


def _records(kafka: str) -> Iterator[tuple[str, bytes]]:
    admin = AdminClient({"bootstrap.servers": kafka})
    for message in read_committed(kafka, *admin.list_topics(timeout=30).topics):
        parts = (message.key() or b"", message.value() or b"", repr(message.headers() or ()).encode())
        yield str(message.topic()), b" ".join(parts)
