"""The plot of a report: this system's figures as multiples of the peer's, query by query."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

#: The plotted figures, and whether more is better.
_FIGURES = {"throughput": True, "CPU": False, "peak memory": False}


def plot(report: Path) -> Path | None:
    """Plots a report as an SVG file next to it; returns the path, or None if no peer was measured.

    Bars are ratios of this system's figures to the peer's: throughput is better above 1, CPU and memory below 1.
    """
    results = json.loads(report.read_text("utf-8"))["results"]
    ratios = {figure: _ratios(results, figure) for figure in _FIGURES}
    if not any(ratios.values()):
        return None
    mpl.rcParams["svg.hashsalt"] = "nexmark"
    figure = Figure(figsize=(9, 7), layout="constrained")
    for axes, (name, known) in zip(figure.subplots(len(ratios), 1, sharex=True), ratios.items(), strict=True):
        axes.bar(list(known), list(known.values()), color="tab:blue")
        axes.axhline(1.0, color="black", linewidth=0.8)
        mean = math.exp(sum(map(math.log, known.values())) / len(known))
        axes.axhline(mean, linestyle=":", label=f"geometric mean {mean:.2f}")
        axes.set_ylabel(f"{name}\n({'higher' if _FIGURES[name] else 'lower'} is better)")
        axes.legend(loc="upper right")
        axes.grid(visible=True, axis="y", alpha=0.3)
    figure.suptitle(f"NEXMark: ours as a multiple of {_peer(results)}")
    path = report.with_suffix(".svg")
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _ratios(results: list[dict[str, Any]], figure: str) -> dict[str, float]:
    """The ratios by query, for queries that were measured on both systems."""
    both = (one for one in results if one["name"].endswith(f": {figure}") and one.get("peer") and one["value"])
    return {one["name"].partition(",")[0]: one["value"] / one["peer"]["value"] for one in both if one["peer"]["value"]}


def _peer(results: list[dict[str, Any]]) -> str:
    return str(next(one["peer"]["name"] for one in results if one.get("peer")))
