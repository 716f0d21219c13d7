"""Simulated histories of the whole service end as their logs determine, and a seed determines a history."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import seeds_that_failed, simulate
from tests.simulation.draw import drawn

#: The seeds that `make unit` runs, those that `make test` runs, and those that are run three times.
_FEW, _SEEDS, _REPEATED = 3, range(1, 13), range(101, 104)
#: Seconds that another process may take for all repeated seeds.
_LIMIT_S = 300


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > _FEW)) for seed in _SEEDS])
def test_results_are_what_the_logs_determine(seed: int) -> None:
    assert simulate(drawn(seed)).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds_that_failed())
def test_histories_that_have_failed_once(seed: int) -> None:
    assert simulate(drawn(seed)).problems == ()


@pytest.mark.slow
@pytest.mark.timeout(2 * _LIMIT_S)
def test_a_seed_determines_all_events() -> None:
    here = [f"{seed} {simulate(drawn(seed)).digest}" for seed in _REPEATED for _ in range(2)]
    assert here[::2] == here[1::2]
    assert _digests(hash_seed="1") == here[::2]


def _digests(hash_seed: str) -> list[str]:
    """The hashes of the traces of the repeated seeds, computed in another process."""
    options = ["--first", str(_REPEATED.start), "--histories", str(len(_REPEATED)), "--digests"]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if line.split(" ")[0].isdigit() and len(line.split(" ")) == 2]


@pytest.mark.slow
def test_the_product_has_no_other_clocks_threads_and_chance() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation.real_places"],
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    found, _, replaced = ran.stdout.rpartition("replaced: ")
    assert (ran.returncode, found) == (0, ""), ran.stdout + ran.stderr
    assert int(replaced) > 50, "the search finds nothing even without a simulation"
