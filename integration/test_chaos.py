"""A short run of the chaos program, and tests that its comparison finds wrong results."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from dsms.local.ports import free_port
from dsms.local.waiting import wait_until
from integration.chaos import verdict
from integration.chaos.life import Life, Version, steps
from integration.chaos.link import linked
from integration.chaos.run import run
from integration.chaos.shapes import SHAPES, Text
from integration.chaos.timeline import timeline
from integration.chaos.world import unable
from integration.kafka_log import Change, Letter


@pytest.mark.services
@pytest.mark.timeout(1500)
def test_a_minute_of_chaos(tmp_path: Path):
    figures = run(38, 1.0, tmp_path)
    assert figures.wrong == []
    assert sum(figures.disturbances.values()) > 3
    assert figures.queries > len(SHAPES)
    assert figures.changes > figures.changes_compared_with_undisturbed > 1000
    assert figures.dead_letters > 10


def test_schedule_has_every_kind_of_disturbance_and_statement():
    plan = timeline(1, 1800)
    assert {(what.kind, what.target) for what in plan} >= {(what.kind, what.target) for what in timeline(2, 1800)}
    assert timeline(1, 1800) == plan
    assert {step.verb for step in steps(1, 600)} == {"create", "drop", "replace", "pause", "resume"}
    assert not {what.kind for what in timeline(1, 1800, unable())} & unable().keys()


def changed(*rows: tuple[str, str, int | None, int]) -> list[Change]:
    """A log of one partition: operation, key, v and instant of each change."""
    return [
        Change(0, key.encode(), None if v is None else json.dumps({"k": key, "v": v}).encode(), op, ts)
        for op, key, v, ts in rows
    ]


RIGHT = changed(("+", "a", 50, 10), ("u", "a", 60, 20), ("+", "b", 70, 20), ("-", "a", None, 30))
RECORDS = [("a", 50, 10, "+"), ("a", 60, 20, "+"), ("b", 70, 20, "+"), ("b", 10, 5, "+"), ("a", 0, 30, "-")]


def problems(log: list[Change]) -> list[str]:
    rows = [
        {"part": 0, "offset": at, "ts": ts, "op": op, "k": k, "v": v, "d": 1}
        for at, (k, v, ts, op) in enumerate(RECORDS)
    ]
    tables = {name: verdict.Accepted(rows) for name in ("main", "side", "quiet")}
    life = Life("q", [Version(Text("filter", 40))])
    return list(verdict.differences(life, log, verdict.Oracle(tables), verdict.Decoder("http://nowhere")))


def test_a_right_log_is_right():
    assert problems(RIGHT) == []


@pytest.mark.parametrize(
    "log",
    [
        RIGHT[:-1], RIGHT[1:], [*RIGHT, RIGHT[-1]], [RIGHT[0], *RIGHT], [RIGHT[0], *RIGHT[2:]],
        [RIGHT[0], RIGHT[1], RIGHT[3], RIGHT[2]], changed(("+", "a", 51, 10)) + RIGHT[1:],
        [RIGHT[0], *changed(("u", "a", 50, 15)), *RIGHT[1:]], [RIGHT[0]._replace(ts=12), *RIGHT[1:]],
    ],
)  # fmt: skip
def test_wrong_logs_are_detected(log: list[Change]):
    assert problems(log)


def test_logs_that_differ_in_one_record_are_found():
    assert not list(verdict.same_log(RIGHT, RIGHT))
    assert list(verdict.same_log(RIGHT, RIGHT[:-1]))
    assert list(verdict.same_log(RIGHT, [*RIGHT[:-1], RIGHT[-1]._replace(ts=31)]))


def test_missing_and_repeated_dead_letters_are_found():
    letter = Letter(b"", (("dsms-error", "late"), ("dsms-offset", "3"), ("dsms-partition", "0")))
    assert not list(verdict.wrong_letters([letter], {(0, 3)}))
    assert list(verdict.wrong_letters([letter, letter], {(0, 3)}))
    assert list(verdict.wrong_letters([], {(0, 3)}))
    assert list(verdict.wrong_letters([letter], set()))


def test_a_frontier_is_that_of_the_query_and_of_its_last_version():
    life = Life("q", [Version(Text("flat", 1)), Version(Text("flat", 2), since=50)], ids=["o2", "o3"])

    def published(query: str, frontier: int) -> int:
        return life.frontier_in("t", {b"t/0": json.dumps({"query": query, "frontier": frontier}).encode()})

    assert published("o1", 70) == -(2**63), "of a query that had the name before"
    assert (published("o2", 40), published("o2", 70)) == (40, 50)
    assert published("o3", 70) == 70


def frames(sock: socket.socket) -> Iterator[bytes]:
    """The frames that arrive on a connection."""
    with sock, sock.makefile("rb") as file:
        while len(size := file.read(4)) == 4:
            yield file.read(int.from_bytes(size, "big"))


def frame(number: int) -> bytes:
    """An EndTxn request whose body contains a number."""
    body = (26).to_bytes(2, "big") + number.to_bytes(4, "big")
    return len(body).to_bytes(4, "big") + body


def test_link_delivers_requests_late_and_twice_without_loss():
    seen: list[int] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def answer(sock: socket.socket) -> None:
        for body in frames(sock):
            seen.append(int.from_bytes(body[2:6], "big"))
            with suppress(OSError):
                sock.sendall(len(body).to_bytes(4, "big") + body)

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        linked(free_port(), listener.getsockname()[1], framed=True) as link,
    ):
        threading.Thread(target=serve, daemon=True).start()
        link.deliver_late(Random(1))
        cut = 0
        for number in range(40):
            cut += not answered(link.port, number)
        assert wait_until(lambda: set(seen) == set(range(40)), 120)
        assert wait_until(lambda: len(seen) > 40, 120), "none came twice"
        link.heal()
        listener.shutdown(socket.SHUT_RDWR)
    assert cut > 0
    assert seen != sorted(seen), "none came late"


def answered(port: int, number: int) -> bool:
    """Sends a request on a new connection; returns whether it was answered."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock, suppress(OSError):
        sock.sendall(frame(number))
        return any(True for _ in frames(sock))
    return False
