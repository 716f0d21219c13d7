"""Simulates how evenly queries are distributed if none ever moves: `python -m benchmarks.placement`.

Queries are created and dropped, with loads that differ by orders of magnitude (lognormal). A new query goes to the
fragment that the coordinator would choose (`dsms/registration/placement.py`) and stays there. At the creation of each
query, once the first queries have been dropped, the simulation takes the load of the busiest fragment in % of the mean:
with the queries where they are, and with all queries redistributed, the heaviest first. It reports the median and the
95th percentile. Writes `benchmarks/out/placement.json`.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, quantiles

from benchmarks.report import Result, write_report
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.registration.placement import least_loaded

OUT = Path(__file__).parent / "out" / "placement.json"
#: The standard deviation of the logarithm of loads: a twentieth of the queries have more than 5 times the median.
SPREAD = 1.0


@dataclass(frozen=True)
class Running:
    """A query, its load, and when it is dropped."""

    fragment: str
    load: float
    gone: float


def history(seed: int, fragments: int, queries: int, comings: int) -> Iterator[tuple[float, float]]:
    """The load of the busiest fragment in % of the mean, as it is and after a redistribution, at each creation of a
    query. About `queries` run at a time."""
    draw, running, now = random.Random(seed), list[Running](), 0.0
    for number in range(comings):
        now += draw.expovariate(1.0)
        running = [query for query in running if query.gone > now]
        busy = _loads(running, fragments)
        chosen = least_loaded(_catalog(running), (), busy)[0]
        running.append(Running(chosen, draw.lognormvariate(0.0, SPREAD), now + draw.expovariate(1 / queries)))
        if number > 3 * queries:
            yield _unevenness(running, fragments), _unevenness(dealt(running, fragments), fragments)


def dealt(running: Sequence[Running], fragments: int) -> list[Running]:
    """The queries redistributed: the heaviest first, each to the least loaded fragment."""
    loads, places = _loads([], fragments), dict[int, str]()
    for at in sorted(range(len(running)), key=lambda at: -running[at].load):
        places[at] = min(loads, key=lambda name: (loads[name], name))
        loads[places[at]] += running[at].load
    return [Running(places[at], query.load, query.gone) for at, query in enumerate(running)]


def _loads(running: Sequence[Running], fragments: int) -> dict[str, float]:
    loads = {str(name): 0.0 for name in range(fragments)}
    for query in running:
        loads[query.fragment] += query.load
    return loads


def _unevenness(running: Sequence[Running], fragments: int) -> float:
    loads = _loads(running, fragments).values()
    return 100 * max(loads) / mean(loads)


def _catalog(running: Sequence[Running]) -> Catalog:
    """A catalog of queries with equal weights."""
    queries = [
        Query(name=f"q{at}", id=str(at), sql="", kind="query", select="", topic="", fragment=query.fragment)
        for at, query in enumerate(running)
    ]
    return Catalog(objects={query.name: query for query in queries})


def main() -> None:
    """Simulates, prints the figures, and writes the report."""
    asked = _options()
    results = []
    for fragments in (2, 4, 8):
        for queries in (20, 100, 400):
            samples = [
                sample for seed in range(asked.seeds) for sample in history(seed, fragments, queries, 5 * queries)
            ]
            of = f"{queries} queries on {fragments} fragments"
            for at, what in enumerate(("busiest", "busiest, dealt anew")):
                values = [sample[at] for sample in samples]
                results.append(Result(f"{of}: {what}, median", median(values), "%", "lower"))
                results.append(Result(f"{of}: {what}, 95th percentile", quantiles(values, n=20)[-1], "%", "lower"))
    write_report(asked.out, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many histories of each size")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
