"""A coordinator in memory whose results can be read as a stream."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from confluent_kafka import Message

from connectors.memory.answers import MemoryAnswers
from dsms.coordinator.catalog.lookup import UnknownName
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.coverage import CoverageReport
from dsms.coordinator.results.feed import Feeds, FeedSettings
from dsms.coordinator.results.positions import parse_records
from dsms.coordinator.results.publishing import Published, split_body
from dsms.model.declared_columns import Column
from dsms.model.objects import Source
from dsms.model.principal import Caller, Principal
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving

SCHEMA = pa.schema([pa.field("room", pa.string()), pa.field("t", pa.int64())])
HOT = Followed("o3", "hot", "dsms.hot", 2, SCHEMA, ("room",), "json")
SOURCE = Source(name="readings", id="o1", sql="", columns=(Column("room", "VARCHAR"),), topic="r", partitions=2)
QUICK = FeedSettings(poll_s=0.01, keep_alive_s=0.1, piece_bytes=4_000)


def record(place: tuple[int, int], key: bytes | None, value: bytes | None, *headers: tuple[str, bytes]) -> Message:
    """A record of topic t; `place` is (partition, offset)."""
    return Message(
        topic="t", partition=place[0], offset=place[1], key=key, value=value, headers=list(headers), timestamp=(1, 0)
    )


@dataclass
class MemoryLog:
    """Topics in memory; None is at the offset of a transaction marker."""

    logs: dict[tuple[str, int], list[Message | None]] = field(default_factory=dict)
    reads: int = 0
    offsets: int = 0

    def append(self, partition: int, op: str, ts: int, key: object, row: object, topic: str = "dsms.hot") -> None:
        log = self.logs.setdefault((topic, partition), [])
        heads = (("dsms-ts", str(ts).encode()), *((("dsms-op", op.encode()),) if op != "+" else ()))
        value = None if row is None else json.dumps(row).encode()
        log.append(record((partition, len(log)), json.dumps(key).encode(), value, *heads))

    def mark(self, partition: int) -> None:
        self.logs[("dsms.hot", partition)].append(None)

    def starts(self, places: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        return dict.fromkeys(places, 0)

    def ends(self, places: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        return {place: len(self.logs.get(place, [])) for place in places}

    def settled(self, topic: str) -> Mapping[tuple[str, int], int]:
        return {place: len(log) for place, log in self.logs.items() if place[0] == topic}

    def read(self, wanted: Any) -> list[Message]:
        self.reads, self.offsets = self.reads + 1, self.offsets + wanted.end - wanted.start
        log = self.logs.get((wanted.topic, wanted.partition), [])
        assert wanted.start < wanted.end <= len(log)
        return [message for message in log[wanted.start : wanted.end] if message is not None]


class FakeOutlet:
    """Feeds over a log in memory. Keeps published records; `covers` are the answers to questions about coverage."""

    def __init__(self, settings: FeedSettings) -> None:
        self.log, self.results = MemoryLog(), {"hot": HOT}
        self.ids: dict[str, str] = {"hot": HOT.id}
        self.feeds = Feeds(self.log, lambda followed: self.ids.get(followed.name), settings)
        self.published: list[tuple[str, list[bytes], list[str], int | None]] = []
        self.covers: list[CoverageReport] = []

    def result(self, name: str) -> Followed:
        if name not in self.results:
            raise UnknownName("object", name, self.results)
        return self.results[name]

    def publish(self, name: str, body: bytes, key: list[str], advance: int | None, principal: Principal) -> Published:
        records = split_body(body)
        self.published.append((name, records, key, advance))
        return Published(SOURCE, tuple((0, number) for number in range(len(records))))

    def question(self, name: str, token: str) -> object:
        parse_records(token)
        return type("CoverageQuestion", (), {"instant": 9})

    def cover(self, asked: object) -> CoverageReport:
        return self.covers.pop(0) if len(self.covers) > 1 else self.covers[0]


class StreamingService(FakeService):
    """A coordinator in memory with results and a catalog version; statements that contain "slow" wait for `run`."""

    def __init__(self, settings: FeedSettings = QUICK) -> None:
        super().__init__()
        self.results, self.version, self.run = FakeOutlet(settings), 1, threading.Event()
        self.answers: Any = MemoryAnswers()

    def settled_version(self) -> int:
        return self.version

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[Any]:
        results = super().execute(sql, caller, cancelled)
        if "slow" in sql:
            assert self.run.wait(20)
        return results


@contextmanager
def running(settings: FeedSettings = QUICK, access: Access | None = None) -> Iterator[tuple[StreamingService, str]]:
    service = StreamingService(settings)
    with serving(create_app(service, SchemaRegistry(), access)) as url:
        yield service, url
    service.results.feeds.close()


def connected(url: str, path: str) -> socket.socket:
    """The socket of a client that has sent a GET request and reads nothing yet."""
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), timeout=30)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return client
