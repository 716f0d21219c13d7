"""Watches queries from outside while they get input: the frontiers of their results, and how much is shed."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cluster import Cluster
from benchmarks.progress import Moved, ProgressReader
from benchmarks.shedding_queries import QUERIES


@dataclass
class Watch:
    """Records the moves of all results, and the part of the input that is kept, while the block runs."""

    cluster: Cluster
    #: (milliseconds, frontier) by result topic.
    moves: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    #: The ids of the queries by their names.
    ids: dict[str, str] = field(default_factory=dict)
    #: (milliseconds, part of the input that is kept) by query.
    sheds: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._progress = ProgressReader(self.cluster.kafka, self.cluster.state.cluster)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._follow, self._ask)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join()
        self._progress.close()

    def reached(self, name: str) -> int:
        """The frontier of a result."""
        moves = self.moves.get(f"dsms.{name}")
        return moves[-1][1] if moves else -1

    def _follow(self) -> None:
        while not self._leaving.is_set():
            for moved in self._progress.read(0.1):
                self.moves[moved.topic].append((_wall_ms(moved), moved.frontier))

    def _ask(self) -> None:
        while not self._leaving.wait(0.5):
            at = time.time() * 1_000
            for query, lane in lanes_of(self.cluster).items():
                self.ids[query] = lane["id"]
                self.sheds[query].append((at, lane["stays"]))


def _wall_ms(moved: Moved) -> float:
    return (time.time() - (time.monotonic() - moved.seen_s)) * 1_000


def lanes_of(cluster: Cluster) -> dict[str, Any]:
    """The lanes of the queries by name. Relies on the ids of the queries to ascend in the order of `QUERIES`."""
    executors = cluster.api.status()["executors"].values()
    lanes = {int(query[1:]): lane for executor in executors for query, lane in executor["lanes"].items()}
    return {query.name: {**lanes[at], "id": f"o{at}"} for query, at in zip(QUERIES, sorted(lanes), strict=False)}
