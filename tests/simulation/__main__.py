"""Simulates random histories of the whole service, one for each seed; reports, shrinks and keeps those that fail."""

from __future__ import annotations

import os

# frames are tiny: threads cost more than they save, and the order of their work is not determined
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import gc
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import structlog

from dsms.simulation.history import History
from dsms.simulation.run import Outcome, run
from dsms.simulation.shrink import shrunk
from dsms.simulation.story import story
from dsms.simulation.world import World
from tests.simulation.draw import Drawn, drawn
from tests.simulation.oracle import wrong_relations, wrong_results
from tests.support.pool_thread import on_pool_thread

#: The seeds whose histories have failed once: they are run always.
FAILED_ONCE = Path(__file__).parent / "failed_once.txt"

#: The most characters of the problems of a history.
_WIDTH = 600
#: How many new objects start a garbage collection. With Python's default, a fifth of the time goes there.
_GC_THRESHOLD = 200_000


def simulate(given: Drawn) -> Outcome:
    """Runs a history, and compares its result with DuckDB if that can be known."""
    return run(given.history, lambda world: _wrong(given, world))


def _wrong(given: Drawn, world: World) -> list[str]:
    return [*wrong_relations(given, world), *wrong_results(world)]


def seeds_that_failed() -> list[int]:
    """The seeds of the file, without comments."""
    lines = (line.partition("#")[0].strip() for line in FAILED_ONCE.read_text().splitlines())
    return [int(line) for line in lines if line]


def main() -> int:
    """Runs what the command line asks for; returns the number of histories that failed, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay the history of one seed, and tell its story")
    parser.add_argument("--first", type=int, default=int(time.time()), help="the first seed")
    parser.add_argument("--histories", type=int, default=1_000_000, help="how many histories to run")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no history after that time")
    parser.add_argument("--digests", action="store_true", help="print the hash of each trace")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--twice", action="store_true", help="run each history twice, and compare the traces")
    parser.add_argument("--shrink", action="store_true", help="reduce a failing history")
    parser.add_argument("--stop", action="store_true", help="stop at the first failing history")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    gc.set_threshold(_GC_THRESHOLD)
    if asked.seed is not None:
        return on_pool_thread(lambda: _tell(asked.seed, shrink=asked.shrink))
    if asked.processes > 1:
        return _in_processes(asked)
    return on_pool_thread(lambda: _run_many(asked))


def _in_processes(asked: argparse.Namespace) -> int:
    """Runs equal parts of the seeds in several processes."""
    count = -(-asked.histories // asked.processes)
    options = ["--minutes", str(asked.minutes), "--histories", str(count)]
    options += [f"--{name}" for name in ("twice", "shrink", "stop", "digests") if getattr(asked, name)]
    children = [
        subprocess.Popen([sys.executable, "-m", "tests.simulation", *options, "--first", str(asked.first + at * count)])
        for at in range(asked.processes)
    ]
    return min(sum(child.wait() for child in children), 100)


def _run_many(asked: argparse.Namespace) -> int:
    begun, failures, happened, seconds = time.monotonic(), 0, Counter[str](), 0.0
    done = 0
    for seed in range(asked.first, asked.first + asked.histories):
        if time.monotonic() - begun > 60 * asked.minutes:
            break
        given = drawn(seed)
        outcome = simulate(given)
        problems = list(outcome.problems)
        if asked.digests:
            _say(f"{seed} {outcome.digest}")
        if asked.twice and simulate(given).digest != outcome.digest:
            problems.append("the same seed gave another trace")
        done, happened, seconds = done + 1, happened + outcome.happened, seconds + outcome.seconds
        if problems:
            failures += 1
            _say(f"seed {seed}: " + "; ".join(problems)[:_WIDTH])
            if asked.shrink:
                _shrink(given, outcome)
            if asked.stop:
                break
        if done % 50 == 0:
            rate = done / (time.monotonic() - begun)
            sys.stderr.write(
                f"{done} histories, {failures} failed, {rate:.2f}/s, {seconds / done:.0f} s simulated each\n"
            )
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(happened.items()))
    _say(f"{done} histories, {failures} failed; faults that happened: {listed or 'none'}")
    return min(failures, 100)


def _shrink(given: Drawn, outcome: Outcome) -> None:
    def tried(history: History) -> Outcome:
        return run(history, lambda world: _wrong(given, world))

    least = shrunk(given.history, lambda history: bool(tried(history).problems), most_runs=60)
    _say(f"shrunk from {given.history.size} to {least.size} parts:\n{story(tried(least))}")


def _tell(seed: int, *, shrink: bool) -> int:
    given = drawn(seed)
    outcome = simulate(given)
    _say(story(outcome))
    if shrink and outcome.problems:
        _shrink(given, outcome)
    return min(len(outcome.problems), 1)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
