"""A random, seeded sequence of failures over a real cluster: `python -m integration.chaos --minutes 10 --seed 1`.

The run kills and freezes executors, Spark's workers and the coordinator, cuts networks, crashes Redis and the broker,
empties Redis, steps clocks, fills disks, adds and removes executors, and creates, replaces, pauses, resumes and drops
queries, while it publishes input with late and bad records. Then it heals everything and compares every result topic:
with DuckDB's relations at many instants, and record by record with an undisturbed run if the log law says that both are
equal. It starts its own services, and writes `benchmarks/out/chaos.json`. The same seed gives the same disturbances,
statements and records; at which record a disturbance happens depends on the machine. If a result is wrong, the
directory with all logs and the journal is kept.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.cluster import report
from integration.chaos.run import Figures, run

OUT = Path(__file__).parents[2] / "benchmarks" / "out" / "chaos.json"


def keep(figures: Figures, out: Path) -> None:
    """Adds the figures to those of other seeds; those of the same seed are replaced."""
    known = json.loads(out.read_text()) if out.exists() else []
    others = [each for each in known if each["seed"] != figures.seed]
    out.write_text(json.dumps(sorted([*others, asdict(figures)], key=lambda each: each["seed"]), indent=2) + "\n")


def end(*_: object) -> None:
    """Ends the run at the first SIGTERM, and with it everything that it has started."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main() -> int:
    """Executes a run; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT, help="the file of figures")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, end)
    directory = Path(tempfile.mkdtemp(prefix="dsms-chaos-"))
    figures = run(asked.seed, asked.minutes, directory)
    keep(figures, asked.out)
    if figures.wrong:
        report(f"{len(figures.wrong)} results are wrong; see {directory}")
        return 1
    shutil.rmtree(directory)
    report(
        f"seed {figures.seed}: {sum(figures.disturbances.values())} disturbances, {figures.statements} statements, "
        f"{figures.records:,} records; {figures.changes:,} changes of {figures.queries} queries are right, "
        f"{figures.changes_compared_with_undisturbed:,} of them as in an undisturbed run"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
