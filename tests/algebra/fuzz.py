"""Draws cases, checks both laws, shows progress and keeps counterexamples: `python -m tests.algebra.fuzz --help`."""

from __future__ import annotations

import os

# frames are tiny: threads cost more than they save, and two processes share the machine
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

from tests.algebra.case_check import CUTTINGS, Cutting, check, first_error, shown  # noqa: E402
from tests.algebra.cases import NAMES, Case, cases  # noqa: E402
from tests.algebra.duck import Duck  # noqa: E402
from tests.algebra.even_draws import install  # noqa: E402
from tests.support.pool_thread import on_pool_thread  # noqa: E402

CORPUS = HERE / "counterexamples.py"
#: The number of cases of one run of Hypothesis; a failure ends only this run.
CHUNK = 250
#: The number of cases of `make fuzz`.
CASES = int(os.environ.get("DSMS_FUZZ_CASES", "100000"))


@dataclass
class Drawn:
    """The number of cases drawn, and the simplest failing one."""

    count: int = 0
    failed: tuple[Case, Cutting, str] | None = None


def draw(count: int, number: int, *, shrink: bool, having: str = "") -> Drawn:
    """Checks `count` cases, or fewer if one fails."""
    duck, drawn = Duck(), Drawn()
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]

    @seed(number)
    @settings(
        max_examples=count, backend=install(), database=None, deadline=None, phases=phases,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases(9 if having else 6, having=having), CUTTINGS)
    def check_case(case: Case, cutting: Cutting) -> None:
        drawn.count += drawn.failed is None
        error = first_error(lambda: check(case, cutting, duck))
        if error is not None:
            error = error if "CREATE" in error else f"{error}\n{shown(case)}"
            drawn.failed = case, cutting, error
            raise AssertionError(error.split("\n")[0])

    outcome = first_error(check_case)
    if outcome is not None and drawn.failed is None:
        raise RuntimeError(outcome)
    return drawn


def run(count: int, number: int, *, keep: bool, having: str = "", skip: int = 0) -> Iterator[str]:
    """Yields the messages of failures; a failure does not end the run.

    `keep` reduces failing cases and adds them to the corpus. `skip` continues a run that was interrupted after that
    number of cases: each chunk has its own seed.
    """
    begun, done, failures = time.monotonic(), skip, 0
    while done < count:
        drawn = draw(min(CHUNK, count - done), number * 1_000_003 + done, shrink=keep, having=having)
        done += drawn.count
        gc.collect()
        if drawn.failed is not None:
            failures += 1
            if keep:
                remember(*drawn.failed)
            yield drawn.failed[2]
        rate = (done - skip) / (time.monotonic() - begun)
        sys.stderr.write(f"process {number}: {done} of {count} cases, {failures} failed, {rate:.1f}/s\n")


def remember(case: Case, cutting: Cutting, message: str) -> None:
    """Adds a counterexample to the corpus."""
    text = CORPUS.read_text().rstrip()
    assert text.endswith("]")
    why = message.split("\n")[0][:100]
    CORPUS.write_text(f"{text[:-1]}    # {why}\n    (\n        {case!r},\n        {cutting!r},\n    ),\n]\n")


def in_processes(
    count: int, number: int, processes: int, *options: str, skip: int = 0, output: int | None = subprocess.PIPE
) -> list[subprocess.Popen[str]]:
    """Divides the cases among processes with different seeds."""
    share, skipped = -(-count // processes), skip // processes // CHUNK * CHUNK
    seeds = [str(number * processes + at) for at in range(processes)]
    counts = ["--cases", str(share), "--skip", str(skipped)]
    command = [sys.executable, "-m", "tests.algebra.fuzz", *counts, "--processes", "1", *options, "--seed"]
    return [subprocess.Popen([*command, seed], stdout=output, text=True) for seed in seeds]


def _collect_seldom() -> None:
    """Makes garbage collection rare: at its usual rate it takes a sixth of the time, because a case makes many small
    objects that live as long as the case. Cyclic garbage is collected after each chunk."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _run_here(asked: argparse.Namespace) -> int:
    _collect_seldom()
    failures = 0
    messages = run(asked.cases, asked.seed, keep=asked.keep, having=asked.having, skip=asked.skip)
    for failures, message in enumerate(messages, 1):  # noqa: B007
        sys.stdout.write(f"{message}\n\n")
        sys.stdout.flush()
    return min(failures, 100)


def main() -> int:
    """Runs the cases that the command line asks for; returns the number of failures, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--skip", type=int, default=0, help="how many of these cases an interrupted run has checked")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="reduce counterexamples and add them to the corpus")
    parser.add_argument("--with", dest="having", choices=NAMES, default="", help="what every case has")
    asked = parser.parse_args()
    if asked.processes == 1:
        return on_pool_thread(lambda: _run_here(asked))
    options = [*(["--keep"] if asked.keep else []), *(["--with", asked.having] if asked.having else [])]
    children = in_processes(asked.cases, asked.seed, asked.processes, *options, skip=asked.skip, output=None)
    return min(sum(child.wait() for child in children), 100)


if __name__ == "__main__":
    sys.exit(main())
