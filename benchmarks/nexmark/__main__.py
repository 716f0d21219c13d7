"""NEXMark's queries, one at a time: `python -m benchmarks.nexmark --queries q0,q5`; `--peers` also runs Flink SQL.

This system runs them in two modes: synchronised to whole seconds, which is closest to Flink's mini-batches, and for
every instant. Both are compared with Flink with mini-batches. The benchmark measures throughput (records/s), CPU (s per
million records), peak memory (MB), and how busy the machine was otherwise. It verifies all results against DuckDB's. If
a query fails or exceeds its time limit, it reports the reason and continues with the next one. Writes
`benchmarks/out/nexmark.json`.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.cluster import Cluster, report, running_cluster, running_kafka
from benchmarks.nexmark import flink, ours
from benchmarks.nexmark.figures import figures
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import load_plain
from benchmarks.nexmark.measured import Measured
from benchmarks.nexmark.ours import FEW, Effort, Input
from benchmarks.nexmark.plot import plot
from benchmarks.nexmark.questions import QUESTIONS, Question
from benchmarks.nexmark.reference import Reference
from benchmarks.nexmark.timeline import Timeline
from benchmarks.peers.flink import NAME
from benchmarks.peers.flink_install import flink_install
from benchmarks.report import Result, write_report
from operators.core.errors import DsmsError

OUT = Path(__file__).parent.parent / "out" / "nexmark.json"
#: The modes, and whether results are synchronised to whole seconds.
MODES = {"each second": True, "every instant": False}
#: The time limit of a query on Flink, for its start and all runs together, as a multiple of the limit of one run here.
_FLINK_LIMIT = 4
_NO_TIME = "not started: out of time"
#: The greatest number of clusters that are started: a new one after each failure.
_CLUSTERS = 12
#: The name of a query, and a mode of this system or the name of a peer.
Asked = tuple[str, str]


@dataclass
class Answers:
    """The measurements, and the reasons for missing ones. No query is started after the deadline."""

    deadline: float
    measured: dict[Asked, Measured] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def attempt(self, asked: Asked, measure: Callable[[], Measured]) -> bool:
        """Measures one query, or records why it was not measured; False if it failed."""
        label = ", ".join(asked)
        if self.late:
            self.failures[label] = _NO_TIME
            return True
        try:
            self.measured[asked] = measure()
        except (DsmsError, OSError) as error:
            self.failures[label] = str(error)
            report(f"{label} failed: {error}")
        return asked in self.measured


def main() -> None:
    """Measures, the peer first, and writes the report. On SIGTERM and Ctrl-C the report has the measurements so far."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    events = Events(options.records, Timeline(rate=options.rate))
    inputs = Input(events, Reference(events)), Input(FEW, Reference(FEW), "Few")
    answers = Answers(time.monotonic() + options.minutes * 60)
    try:
        _ask_all(options, inputs, answers)
    finally:
        results = list(_results(options, inputs[0], answers))
        write_report(options.out, results, answers.failures)
        plot(options.out)


def _ask_all(options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers) -> None:
    if options.peers:
        _ask_flink(options, inputs, answers)
    waiting = [(question, mode) for question in options.queries for mode in options.modes]
    why = _NO_TIME
    for _ in range(_CLUSTERS):
        if waiting and not answers.late:
            try:
                _ask_ours(options, inputs, answers, waiting)
            except (DsmsError, OSError) as error:
                why = f"no cluster: {error}"
                report(why)
    answers.failures |= {f"{question.name}, {mode}": why for question, mode in waiting}


def _ask_ours(
    options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers, waiting: list[tuple[Question, str]]
) -> None:
    """Measures the waiting queries in one cluster until one fails, because a failed query may still be running."""
    with running_cluster(options.data_dir) as cluster:
        ours.prepare(cluster, inputs)
        asked, fine = None, True
        while waiting and fine:
            if options.fresh and waiting[0][0] is not asked and not answers.late:
                ours.begin_anew(cluster, inputs[1])
            asked, mode = waiting.pop(0)
            fine = _ask(options, inputs, answers, cluster, asked, mode)


def _ask(
    options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers, cluster: Cluster, question: Question,
    mode: str,
) -> bool:  # fmt: skip
    effort = Effort(options.runs, options.limit)
    return answers.attempt((question.name, mode), partial(ours.measure, cluster, question, inputs, MODES[mode], effort))


def _ask_flink(options: argparse.Namespace, inputs: tuple[Input, Input], answers: Answers) -> None:
    install, limit = flink_install(report), _FLINK_LIMIT * options.limit
    with running_kafka() as kafka:
        for loaded in inputs:
            load_plain(kafka, loaded.events, flink.plain_prefix(loaded.suffix))
        for question in options.queries:
            answers.attempt((question.name, NAME), partial(flink.measure, install, kafka, question, inputs, limit))


def _results(options: argparse.Namespace, given: Input, answers: Answers) -> Iterator[Result]:
    for question in options.queries:
        for mode in options.modes:
            run, peer = (answers.measured.get((question.name, who)) for who in (mode, NAME))
            results, missing = figures(f"{question.name}, {mode}", given.read_by(question), run, peer)
            answers.failures |= missing
            yield from results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="persons, auctions and bids together")
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--queries", type=_questions, default=list(QUESTIONS.values()), help="such as q0,q5")
    parser.add_argument("--modes", type=_modes, default=list(MODES), help=f"some of {', '.join(MODES)}")
    parser.add_argument("--runs", type=int, default=2, help="runs of ours, if they are short; the best is reported")
    parser.add_argument("--limit", type=float, default=40.0, help="the most seconds of a run")
    parser.add_argument("--minutes", type=float, default=22.0, help="nothing new is started after so many")
    parser.add_argument("--fresh", action="store_true", help="a new executor for each question, as the peer has")
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
