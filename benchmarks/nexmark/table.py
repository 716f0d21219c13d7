"""The report as a Markdown table, one row per query and mode: `python -m benchmarks.nexmark.table [REPORT]`."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.nexmark.figures import FIGURES

#: The figures about the machine during the run.
_MACHINE = ("others", "loop")
_SHOWN = [name for name in FIGURES if name not in _MACHINE]
#: The factors from the report's units to those of the table.
_SCALES = {"throughput": 1e-3}
_HEAD = (
    "| question | 1000 records/s, ours / Flink | CPU s a million records | peak memory, MB | others, cores | loop, s |"
)


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table. Each cell has this system's figure, the peer's, and their quotient.

    >>> rows = [{"name": "q0, each second: throughput", "value": 2000.0, "peer": {"value": 1000.0}}]
    >>> print(list(table({"results": rows, "failures": {"q1": "not ended"}}))[2:])
    ['| q0, each second | 2 / 1 = 2.00 | | | | |', '', '- q1: not ended']
    """
    yield _HEAD
    yield "|---" * _HEAD.count(" |") + "|"
    rows: dict[str, dict[str, Any]] = defaultdict(dict)
    for result in report["results"]:
        label, _, name = result["name"].rpartition(": ")
        rows[label][name] = result
    for label, results in rows.items():
        cells = [_beside(results.get(name), _SCALES.get(name, 1.0)) for name in _SHOWN]
        yield _row([label, *cells, *(_both(results.get(name)) for name in _MACHINE)])
    yield ""
    yield from (f"- {label}: {reason}" for label, reason in report.get("failures", {}).items())


def _row(cells: list[str]) -> str:
    """Cells as a row of a table.

    >>> _row(["a", "", "b"])
    '| a | | b |'
    """
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _beside(result: Mapping[str, Any] | None, scale: float) -> str:
    if result is None:
        return ""
    ours = result["value"] * scale
    if result["peer"] is None:
        return f"{_short(ours)}"
    theirs = result["peer"]["value"] * scale
    return f"{_short(ours)} / {_short(theirs)} = {ours / theirs:.2f}"


def _short(number: float) -> str:
    """Three significant digits, without an exponent.

    >>> _short(1234.5), _short(2.0), _short(0.12345)
    ('1 234', '2', '0.123')
    """
    return f"{number:,.0f}".replace(",", " ") if number >= 1000 else f"{number:.3g}"


def _both(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return ""
    peer = result["peer"]
    return f"{result['value']:.2f}" + (f" / {peer['value']:.2f}" if peer else "")


def main() -> None:
    """Prints the table of the given report, by default `benchmarks/out/nexmark.json`."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "out" / "nexmark.json"
    print("\n".join(table(json.loads(path.read_text()))))


if __name__ == "__main__":
    main()
