"""A random, seeded sequence of failures over a real cluster: `python -m integration.chaos --minutes 10 --seed 1`.

Executors, Spark's workers and the coordinator are killed and frozen, networks cut, Redis and the broker crashed, Redis
emptied, clocks stepped, disks filled, executors come and go, and queries are made, replaced, paused, resumed and
dropped, while input with late and bad records is published. Then all is healed, and every result topic is compared,
record by record: with DuckDB's relations at many instants, and with an undisturbed run where the log law says that it
is equal. Starts services of its own; writes `benchmarks/out/chaos.json`. The same seed gives the same disturbances,
statements and records; at which record a disturbance comes depends on the machine. Where something is wrong, the
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
    """Runs; 1 where something is wrong."""
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
