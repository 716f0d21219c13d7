"""`python -m benchmarks.nexmark --queries q0,q5`: NEXMark's questions one at a time, ours and with `--peers` Flink's.

A question is asked twice over: synchronised to whole seconds, beside Flink's mini-batches, and for every instant,
beside Flink without them. What fails or runs into a limit of time is reported with its reason; the others go on.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.cluster import report, running_cluster, running_kafka
from benchmarks.nexmark import flink, ours
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import load_plain
from benchmarks.nexmark.ours import FEW, Input
from benchmarks.nexmark.questions import QUESTIONS, Question
from benchmarks.nexmark.reference import Reference
from benchmarks.nexmark.timeline import Timeline
from benchmarks.peers.flink import NAME, FlinkRun
from benchmarks.peers.flink_install import flink_install
from benchmarks.report import Peer, Result, write_report
from benchmarks.throughput import Run
from operators.errors import DsmsError

OUT = Path(__file__).parent.parent / "out" / "nexmark.json"
#: Whether results are synchronised to whole seconds.
MODES = {"each second": True, "every instant": False}
#: A question in a mode.
Asked = tuple[str, str]
_T = TypeVar("_T")


@dataclass
class Answers:
    """The runs of ours and of the peer, and why others failed. Nothing is started after the deadline."""

    deadline: float
    ours: dict[Asked, Run] = field(default_factory=dict)
    peers: dict[Asked, FlinkRun] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def attempt(self, into: dict[Asked, _T], asked: Asked, who: str, measure: Callable[[], _T]) -> None:
        """Measures one question, or notes why not."""
        label = f"{asked[0]}, {asked[1]} ({who})"
        if time.monotonic() > self.deadline:
            self.failures[label] = "not started: out of time"
            return
        try:
            into[asked] = measure()
        except DsmsError as error:
            self.failures[label] = str(error)
            report(f"{label} failed: {error}")


def main() -> None:
    """Measures and writes the report. Ours is stopped before the peer starts; SIGTERM cleans up like Ctrl-C."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    events = Events(options.events, Timeline(rate=options.rate))
    inputs = Input(events, Reference(events)), Input(FEW, Reference(FEW), "Few")
    answers = Answers(time.monotonic() + options.minutes * 60)
    _ask_ours(options, inputs, answers)
    if options.peers:
        _ask_flink(options, inputs, answers)
    results = [one for asked in answers.ours for one in _figures(asked, inputs[0], answers)]
    write_report(options.out, results, answers.failures)


def _ask_ours(options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers) -> None:
    with running_cluster(options.data_dir) as cluster:
        ours.prepare(cluster, *inputs)
        for question in options.queries:
            for mode in options.modes:
                measured = partial(ours.measure, cluster, question, inputs, MODES[mode], options.runs, options.limit)
                answers.attempt(answers.ours, (question.name, mode), "ours", measured)


def _ask_flink(options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers) -> None:
    install = flink_install(report)
    with running_kafka() as kafka:
        for one in inputs:
            load_plain(kafka, one.events, flink.plain_prefix(one.suffix))
        for question in (one for one in options.queries if one.flink):
            for mode in options.modes:
                measured = partial(flink.measure, install, kafka, question, inputs, MODES[mode], options.limit)
                answers.attempt(answers.peers, (question.name, mode), NAME, measured)


def _figures(asked: Asked, given: Input, answers: Answers) -> list[Result]:
    """Speed, CPU and memory of a question, beside the peer's."""
    run, peer = answers.ours[asked], answers.peers.get(asked)
    records = given.read_by(QUESTIONS[asked[0]])
    label, millions = f"{asked[0]}, {asked[1]}", records / 1e6
    rest = [
        Result(f"{label}: CPU", run.cpu_s / millions, "CPU s/million records", "lower",
               peer=_peer(peer.cpu_s / millions if peer else None)),
        Result(f"{label}: peak memory", run.peak_mb, "MB", "lower", peer=_peer(peer.peak_mb if peer else None)),
    ]  # fmt: skip
    if run.net_s is None:
        answers.failures[f"{label}: throughput"] = f"{records:,} records are too few"
        return rest
    theirs = records / peer.net_s if peer and peer.net_s else None
    return [Result(f"{label}: throughput", records / run.net_s, "records/s", peer=_peer(theirs)), *rest]


def _peer(value: float | None) -> Peer | None:
    return None if value is None else Peer(NAME, value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--queries", type=_questions, default=list(QUESTIONS.values()), help="such as q0,q5")
    parser.add_argument("--modes", type=_modes, default=list(MODES), help=f"some of {', '.join(MODES)}")
    parser.add_argument("--runs", type=int, default=2, help="runs of every question; the best is reported")
    parser.add_argument("--limit", type=float, default=240.0, help="the most seconds of a run (Flink: of a question)")
    parser.add_argument("--minutes", type=float, default=120.0, help="nothing new is started after so many")
    parser.add_argument("--peers", action="store_true", default=os.environ.get("PEERS") == "1", help="Flink as well")
    parser.add_argument("--data-dir", type=Path, help="an empty directory for data and logs, which stay there")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


def _questions(text: str) -> list[Question]:
    return [QUESTIONS[_known(name, QUESTIONS)] for name in text.split(",")]


def _modes(text: str) -> list[str]:
    return [_known(name.strip(), MODES) for name in text.split(",")]


def _known(name: str, choices: dict[str, Question] | dict[str, bool]) -> str:
    if name not in choices:
        raise argparse.ArgumentTypeError(f'no "{name}"; have: {", ".join(choices)}')
    return name


if __name__ == "__main__":
    main()
