"""Sends random statements to a real coordinator: `python -m integration.statement_fuzz --statements 1000 --seed 1`.

No statement may be answered with a server error, or take longer than 2 s. The exit code is 1 if one was or did; the
report names each of them with its text. While other programs keep all processors busy, the processor time of the
coordinator and its processes counts, not the time for which they waited for a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil

from dsms.local.services import http_ready
from integration.cluster import Cluster, running
from integration.session_services import started
from integration.statement_grammar import BASE, ROOT, StatementGrammar

#: Statements of `make fuzz`.
STATEMENTS = int(os.environ.get("DSMS_FUZZ_STATEMENTS", "100000"))
REPORT = ROOT / "benchmarks" / "out" / "statement_fuzz.json"
#: The longest time that a call may take.
LONGEST_S = 2.0
#: After this many statements all objects are dropped and re-created, so that their number does not grow.
_ROUND = 150
_SHOWN = 2_000
_LISTED = 50


@dataclass(frozen=True)
class Call:
    """A call with a server error, or one that took too long: the statement with its number, the answer, how long it
    took when it was first sent and when it was repeated, and the times of both that are compared with the limit."""

    number: int
    statement: str
    status: int
    answer: str
    seconds: float
    again_s: float = 0.0
    counted_s: float = 0.0
    counted_again_s: float = 0.0


@dataclass
class Report:
    """What a run found. `slow` are the calls that took too long both times."""

    seed: int
    statements: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    #: The longest time of a call, and the longest time that was compared with the limit.
    slowest_s: float = 0.0
    slowest_counted_s: float = 0.0
    #: The calls made while other programs kept all processors busy.
    beside_others: int = 0
    #: Connections that ended without an answer; the statement was sent again.
    resets: list[str] = field(default_factory=list)
    failed: list[Call] = field(default_factory=list)
    slow: list[Call] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every statement was answered in time and without a server error."""
        return not self.failed and not self.slow


@dataclass(frozen=True)
class Took:
    """How long a call took, and the time to compare with the limit: the same, or the processor time of the coordinator
    if other programs kept all processors busy."""

    seconds: float
    counted_s: float
    beside_others: bool


class Sender:
    """Sends statements to a cluster and notes the answers."""

    def __init__(self, cluster: Cluster, client: httpx.Client, report: Report) -> None:
        self._cluster, self._client, self._report = cluster, client, report

    def renew(self) -> None:
        """Drops all objects and re-creates the initial ones."""
        for kind in ("queries", "streams", "sources"):
            for item in self._client.get(f"/v1/{kind}").json():
                word = item["kind"].split()[-1].upper()
                quoted = item["name"].replace('"', '""')
                self._call(f'DROP {word} IF EXISTS "{quoted}" CASCADE')
        status, answer, _ = self._call(BASE)
        assert status == httpx.codes.OK, answer

    def send(self, statement: str) -> None:
        """Sends one text. If it took too long it is sent again, since a busy machine may be the reason."""
        report = self._report
        status, answer, took = self._timed(statement)
        report.statements += 1
        report.statuses[str(status)] = report.statuses.get(str(status), 0) + 1
        report.slowest_s = max(report.slowest_s, took.seconds)
        report.slowest_counted_s = max(report.slowest_counted_s, took.counted_s)
        report.beside_others += took.beside_others
        call = Call(report.statements, statement[:_SHOWN], status, answer[:_SHOWN], took.seconds)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            report.failed.append(call)
            sys.stderr.write(f"{_line(call)}\n")
        if took.counted_s > LONGEST_S and (again := self._timed(statement)[2]).counted_s > LONGEST_S:
            times = {"counted_s": took.counted_s, "counted_again_s": again.counted_s}
            report.slow.append(replace(call, again_s=again.seconds, **times))
            sys.stderr.write(f"{_line(report.slow[-1])}\n")

    def _timed(self, statement: str) -> tuple[int, str, Took]:
        before = self._computed_s()
        status, answer, seconds = self._call(statement)
        busy = os.getloadavg()[0] > (os.cpu_count() or 1)
        counted_s = self._computed_s() - before if busy else seconds
        return status, answer, Took(round(seconds, 2), round(counted_s, 2), busy)

    def _computed_s(self) -> float:
        """The processor time that the coordinator and its processes have taken."""
        coordinator = psutil.Process(self._cluster.coordinator.pid)
        total = 0.0
        for process in (coordinator, *coordinator.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # it has ended, and its time is now part of its parent's
                total += sum(process.cpu_times()[:4])
        return total

    def _call(self, statement: str) -> tuple[int, str, float]:
        begun = time.monotonic()
        # ASCII, so that text with lone surrogates can be sent
        body = json.dumps({"sql": statement}).encode()
        try:
            answer = self._post(body)
        except httpx.TransportError as error:
            if not http_ready(f"{self._cluster.url}/healthz"):
                what = f"the coordinator is gone after {statement[:_SHOWN]!r}"
                raise RuntimeError(f"{what}\n{self._cluster.logs()}") from error
            self._report.resets.append(f"{error} at {statement[:_SHOWN]!r}")
            answer = self._post(body)
        return answer.status_code, answer.text, time.monotonic() - begun

    def _post(self, body: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        return self._client.post("/v1/statements", content=body, headers=headers)


def fuzz(cluster: Cluster, statements: int, seed: int) -> Report:
    """Sends this many statements, or fewer after 50 bad answers, and reports progress on standard error."""
    report, grammar = Report(seed), StatementGrammar(seed)
    begun = time.monotonic()
    with httpx.Client(base_url=cluster.url, timeout=300, trust_env=False) as client:
        sender = Sender(cluster, client, report)
        for number in range(statements):
            if number % _ROUND == 0:
                sender.renew()
                report.seconds = round(time.monotonic() - begun, 1)
                sys.stderr.write(f"{number} of {statements}: {_summary(report)}\n")
            sender.send(grammar.next())
            if len(report.failed) + len(report.slow) >= _LISTED:
                break
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def _line(call: Call) -> str:
    counted = f" (counted: {call.counted_s} s and {call.counted_again_s} s)"
    took = f"{call.seconds} s, again {call.again_s} s{counted}" if call.again_s else f"{call.seconds} s"
    return f"{call.number}: {call.status} in {took}: {call.statement!r}\n  {call.answer}"


def _summary(report: Report) -> str:
    counts = ", ".join(f"{count} × {status}" for status, count in sorted(report.statuses.items()))
    faults = f"{len(report.failed)} failed, {len(report.slow)} slow, {len(report.resets)} connections reset"
    slowest = f"slowest {report.slowest_s:.2f} s, counted {report.slowest_counted_s:.2f} s"
    return f"{counts}; {faults}; {slowest}; {report.seconds:.0f} s"


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """A coordinator with a broker and a Redis, which end with the block."""
    with TemporaryDirectory(prefix="dsms-fuzz-") as name, started(Path(name)) as (kafka, redis_url):
        directory = Path(name) / "cluster"
        directory.mkdir()
        loads = {"DSMS_LOAD_DATABASES": "true", "DSMS_LOAD_DIR": str(directory), "PYTHONFAULTHANDLER": "1"}
        with running(kafka, redis_url, directory, environment=loads) as cluster:
            yield cluster


def main() -> int:
    """Runs the command line; returns 1 if an answer was bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=STATEMENTS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path, default=REPORT)
    asked = parser.parse_args()
    with own_cluster() as cluster:
        report = fuzz(cluster, asked.statements, asked.seed)
    asked.report.write_text(json.dumps(asdict(report), indent=1, sort_keys=True) + "\n")
    for call in [*report.failed, *report.slow]:
        sys.stdout.write(f"{_line(call)}\n")
    sys.stdout.write(f"seed {asked.seed}: {report.statements} statements: {_summary(report)}\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
