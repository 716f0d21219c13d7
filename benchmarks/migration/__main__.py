"""Joins whose order changes while they run: `python -m benchmarks.migration`.

First the experiment of chapter 30 of Krämer's thesis: a join of four streams over windows of ten seconds changes from
((A ⋈ B) ⋈ C) ⋈ D to A ⋈ (B ⋈ (C ⋈ D)) after 20 s, in one run by reading from the present positions, in another by
catching up from the beginning. Both runs and one without a change must publish the same records. Then a workload whose
statistics alternate in four phases, with each fixed order and with changes to the order that is measured to be better.
Writes `benchmarks/out/migration.json` and `migration.svg`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.migration import chapter30, flips
from benchmarks.report import Peer, Result, write_report
from operators.core.errors import ExternalError

OUT = Path(__file__).parents[1] / "out" / "migration.json"
_ORDERS = {"A first": "1, 2, 3", "B first": "1, 3, 2", "measured": None}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes the report and the plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migration", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args(arguments).out
    paper = {how: chapter30.run(how) for how in ("stays", "beside", "catches up")}
    if any(run.changes != paper["stays"].changes for run in paper.values()):
        raise ExternalError("a change of the order changed a record", retryable=False)
    flipped = {name: flips.run(order) for name, order in _ORDERS.items()}
    if len({run.rows for run in flipped.values()}) != 1:
        raise ExternalError("a change of the order changed the results", retryable=False)
    write_report(
        out, [*_of_paper(paper), *_of_flips(flipped)], more={"changed after pushes": flipped["measured"].changed}
    )
    _plot(out.with_suffix(".svg"), paper, flipped)


def _of_paper(runs: Mapping[str, chapter30.Run]) -> list[Result]:
    stays, beside, again = (runs[how] for how in ("stays", "beside", "catches up"))
    after = slice(chapter30.BEGIN + chapter30.WINDOW // 1_000 + 1, None)
    moving = slice(chapter30.BEGIN, chapter30.BEGIN + chapter30.WINDOW // 1_000)
    return [
        Result("seconds of data in which two plans run", len(beside.both), "s", "lower", aim=11),
        Result("longest second of processing when it begins", max(beside.busy[moving]), "s", "lower",
               peer=Peer("catching up", max(again.busy[moving]))),
        Result("processing while it changes", sum(beside.busy[moving]), "s", "lower",
               peer=Peer("staying", sum(stays.busy[moving]))),
        Result("rows of state afterwards", beside.state[-1], "rows", "lower", peer=Peer("staying", stays.state[-1])),
        Result("processing afterwards", sum(beside.busy[after]), "s", "lower",
               peer=Peer("staying", sum(stays.busy[after]))),
    ]  # fmt: skip


def _of_flips(runs: Mapping[str, flips.Run]) -> list[Result]:
    totals = {name: sum(run.busy) for name, run in runs.items()}
    best = min(total for name, total in totals.items() if name != "measured")
    return [
        *(Result(f"flips, {name}", total, "s", "lower") for name, total in totals.items()),
        Result("flips, measured beside the best fixed order", totals["measured"] / best, "", "lower", aim=1.2),
    ]


def _plot(path: Path, paper: Mapping[str, chapter30.Run], flipped: Mapping[str, flips.Run]) -> None:
    mpl.rcParams["svg.hashsalt"] = "dsms"
    figure = Figure(figsize=(14, 4), layout="constrained")
    results, state, busy = figure.subplots(1, 3)
    for how, run in paper.items():
        results.plot(run.results, label=how)
        state.plot(run.state, label=how)
    results.set(title="chapter 30: results a second", xlabel="s", ylim=(0, None))
    state.set(title="chapter 30: rows of state", xlabel="s", ylim=(0, None))
    for name, changes in flipped.items():
        busy.plot(list(accumulate(changes.busy)), label=name)
    for push in flipped["measured"].changed:
        busy.axvline(push, color="grey", linewidth=0.5)
    busy.set(title="flips: processor seconds so far", xlabel="pushes", ylim=(0, None))
    for axis in (results, state, busy):
        axis.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
