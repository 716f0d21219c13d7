"""The planner's answers and errors reach the client that asks. After its end, the server answers nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from dsms.spark.plan_client import ask
from dsms.spark.plan_server import PlanServer
from operators.core.errors import DsmsError, ExternalError, Fenced, InternalError


def refuse(error: DsmsError) -> None:
    raise error


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlanServer]:
    answers = {"same": lambda *given: given, "refuse": refuse, "fail": lambda: [][0]}
    made = PlanServer(tmp_path, answers)
    yield made
    made.close()


@pytest.mark.parametrize("given", [(), ({"plan": 1, "at": {}}, None), ([bytes(100_000), bytes(3_000_000)],)])
def test_answers_round_trip(server: PlanServer, given: tuple[object, ...]) -> None:
    assert [ask(server.address, "same", *given) for _ in range(3)] == [given] * 3


@pytest.mark.parametrize("error", [ExternalError("gone", retryable=False), Fenced("newer"), InternalError("broken")])
def test_an_error_of_ours_is_raised_where_it_was_asked(server: PlanServer, error: DsmsError) -> None:
    with pytest.raises(type(error), match=f"^{error}$") as raised:
        ask(server.address, "refuse", error)
    assert vars(raised.value) == vars(error)


@pytest.mark.parametrize("question", ["fail", "unknown"])
def test_unexpected_planner_errors_are_named(server: PlanServer, question: str) -> None:
    with pytest.raises(InternalError, match="^planning failed: (IndexError: list index|KeyError: 'unknown')"):
        ask(server.address, question)
    assert ask(server.address, "same") == ()


def test_client_that_disconnects_early_does_not_disturb_others(server: PlanServer) -> None:
    for sent in (b"", b"no pickle"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.address)
            client.sendall(sent)
    assert ask(server.address, "same", 1) == (1,)


def test_the_end_of_the_next_batch_is_answered_once_it_is_new(tmp_path: Path) -> None:
    ends, asked = iter([{"at": 1}, {"at": 1}, {"at": 2}]), list[object]()
    server = PlanServer(tmp_path, {"latest": lambda start: asked.append(start) or next(ends)})
    assert ask(server.address, "latest", {"at": 1}) == {"at": 2}
    assert asked == [{"at": 1}] * 3
    server.close()


def test_a_server_that_stops_waiting_answers_that_nothing_is_new(tmp_path: Path) -> None:
    server, asked = PlanServer(tmp_path, {"latest": lambda start: asked.set() or start}), threading.Event()
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(ask, server.address, "latest", {"at": 1})
        assert asked.wait(10)
        server.stop_waiting()
        assert answer.result(10) == {"at": 1}
    server.close()


def test_closed_server_answers_nothing_and_leaves_no_file(server: PlanServer, tmp_path: Path) -> None:
    server.close()
    deadline = time.monotonic() + 10
    with pytest.raises((ConnectionError, EOFError, FileNotFoundError)):
        while time.monotonic() < deadline:
            ask(server.address, "same")
    assert wait_until(lambda: not any(tmp_path.iterdir()), 10)
