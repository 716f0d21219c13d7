"""Plots of costs and memory, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.delta_law.measuring import Point
from benchmarks.delta_law.memory import Footprint
from benchmarks.delta_law.table import CHANGE

# makes the file a function of the figures
mpl.rcParams["svg.hashsalt"] = "delta law"


def plot_costs(path: Path, name: str, points: Sequence[Point], across: str) -> None:
    """Plots the median step and the mean including merges over the size. The band is the range that the law permits."""
    figure, axes = _axes(f"{name}: a change of {CHANGE:,} elements", across, "ms")
    sizes = [point.size for point in points]
    smallest = points[0].median_ms
    axes.axhspan(smallest, 2 * smallest, alpha=0.15, label="up to twice the smallest")
    axes.plot(sizes, [point.median_ms for point in points], "o-", label="median step")
    axes.plot(sizes, [point.mean_ms for point in points], "s--", label="mean, with all merges")
    axes.set_ylim(bottom=0)
    _save(figure, axes, path)


def plot_memory(path: Path, footprints: Sequence[Footprint]) -> None:
    """Plots bytes over the number of slides in the window."""
    figure, axes = _axes("state of a sliding count", "window / slide", "bytes")
    slides = [footprint.slides for footprint in footprints]
    axes.plot(slides, [footprint.at_slide for footprint in footprints], "o-", label="when a slide has ended")
    axes.plot(slides, [footprint.between for footprint in footprints], "s--", label="before the next one ends")
    per_slide = footprints[0].at_slide / footprints[0].slides
    axes.plot(slides, [per_slide * number for number in slides], ":", label="proportional")
    axes.set_yscale("log")
    _save(figure, axes, path)


def _axes(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=across, ylabel=up, xscale="log")
    axes.grid(visible=True, alpha=0.3)
    return figure, axes


def _save(figure: Figure, axes: Axes, path: Path) -> None:
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
