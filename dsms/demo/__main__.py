"""`python -m dsms.demo`: starts a cluster, plays the paper's examples, compares the results, and stops the cluster."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from connectors.kafka.client.config import KafkaSettings
from dsms.cli.api_client import ApiClient
from dsms.cli.output import print_error
from dsms.demo.live import Live
from dsms.demo.play import play
from dsms.demo.screen import Screen
from dsms.demo.story import SCENES
from dsms.local import supervisor
from dsms.local.access_token import console_url, local_token
from dsms.local.settings import DEFAULT_DATA_DIR, load_settings
from dsms.local.state import LocalState, running_state
from dsms.local.waiting import wait_until
from operators.core.errors import DsmsError, ExternalError, UserError

EXECUTOR_DEADLINE_S = 120.0
INTERRUPTED = 130

Keep = Annotated[bool, typer.Option("--keep", help="Leave the cluster running at the end.")]
AsLive = Annotated[
    bool,
    typer.Option(
        "--live", help="Send bids of an auction house until Ctrl-C, and show the results here and in the console."
    ),
]
Rate = Annotated[int, typer.Option(min=1, help="Bids per second of the live demo.")]


def main(*, keep: Keep = False, live: AsLive = False, rate: Rate = 100) -> None:
    """Run the examples of the SyncSQL paper, or a live demo, on a new local cluster.

    Exit codes: 0 all results are those in the paper, 1 they differ or the demo failed, 130 ended by Ctrl-C.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    data_dir = Path(os.environ.get("DSMS_DATA") or DEFAULT_DATA_DIR).absolute() / "demo"
    try:
        code = live_demo(data_dir, rate, keep=keep) if live else demo(data_dir, keep=keep)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except DsmsError as error:
        print_error(error)
        code = 1
    sys.exit(code)


def demo(data_dir: Path, *, keep: bool) -> int:
    """Runs all scenes in a fresh data directory; 0 if all results are those in the paper, else 1."""
    screen = Screen()
    with _cluster(data_dir, screen, keep=keep) as state:
        with _api(state, screen) as api:
            wrong = [line for scene in SCENES for line in play(scene, api, KafkaSettings(state.kafka), screen)]
        _judge(wrong, screen)
        if keep:
            _suggest_commands(data_dir, screen)
    return 1 if wrong else 0


def live_demo(data_dir: Path, rate: int, *, keep: bool) -> int:
    """Runs the live demo in a fresh data directory until it is interrupted."""
    screen = Screen()
    with _cluster(data_dir, screen, keep=keep) as state, _api(state, screen) as api:
        Live(api, KafkaSettings(state.kafka), screen, rate, console_url(state) or "").run()
    return 0


@contextmanager
def _cluster(data_dir: Path, screen: Screen, *, keep: bool) -> Iterator[LocalState]:
    """A new cluster on free ports. It is stopped at the end of the block unless `keep` is set and nothing failed."""
    if running_state(data_dir):
        raise UserError("a demo is already running", hint=f'stop it with "{_command("down", data_dir)}"')
    shutil.rmtree(data_dir, ignore_errors=True)
    ports = {"kafka_port": 0, "redis_port": 0, "http_port": 0}
    screen.title("Starting Kafka, Redis, the coordinator and a Spark executor")
    kept = False
    try:
        with screen.waiting("starting (the first start downloads the broker, about 45 MB)"):
            state = supervisor.up(load_settings(os.environ, {"data_dir": data_dir, **ports}), report=screen.aside)
        yield state
        kept = keep
    finally:
        if not kept:
            _stop(data_dir, screen)


def _stop(data_dir: Path, screen: Screen) -> None:
    """Stops the cluster; a second Ctrl-C does not interrupt that."""
    earlier = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with screen.waiting("stopping the cluster"):
            supervisor.down(data_dir, report=lambda _: None)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    screen.line("The cluster is stopped.")


@contextmanager
def _api(state: LocalState, screen: Screen) -> Iterator[ApiClient]:
    """The coordinator's client, once an executor is ready."""
    assert state.coordinator is not None
    with ApiClient(state.coordinator, local_token(state.coordinator, state.data_dir)) as api:
        _await_executor(api, screen)
        yield api


def _await_executor(api: ApiClient, screen: Screen) -> None:
    def ready() -> bool:
        return any(executor["state"] in ("idle", "running") for executor in api.status()["executors"].values())

    with screen.waiting("waiting for Spark"):
        if not wait_until(ready, EXECUTOR_DEADLINE_S, pause_s=0.2):
            raise ExternalError(f"no executor was ready within {EXECUTOR_DEADLINE_S:g} s")
    screen.aside("spark is ready")


def _judge(wrong: list[str], screen: Screen) -> None:
    screen.line()
    for line in wrong:
        screen.line(f"differs from the paper: {line}")
    if not wrong:
        screen.line("All results are exactly those in the paper.")


def _suggest_commands(data_dir: Path, screen: Screen) -> None:
    screen.line("The cluster is still running. Try:")
    for command in ("status", "sql", "consume HotRooms1", "down"):
        screen.line(f"  {_command(command, data_dir)}")


def _command(command: str, data_dir: Path) -> str:
    """A `dsms` command line as the user can type it in the current directory."""
    program = Path(sys.executable).parent / "dsms"
    directory = Path.cwd()
    shown = [path.relative_to(directory) if path.is_relative_to(directory) else path for path in (program, data_dir)]
    return f"{shown[0]} {command} --data-dir {shown[1]}"


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    typer.run(main)
