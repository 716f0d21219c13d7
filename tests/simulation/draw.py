"""Draws a history from a seed: a case of the oracle, when its records are sent, and what fails meanwhile."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from hypothesis.control import BuildContext
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData, StopTest

from connectors.simulation.faults import Fault, Kind
from dsms.simulation.clients import in_order
from dsms.simulation.history import History, Layout, Publication, Statement
from tests.algebra.cases import Case, cases
from tests.algebra.even_draws import EvenProvider
from tests.algebra.query_leaves import END, Source
from tests.support.oracle import Advance, Record

#: An instant after all records of a case: a heartbeat with it makes everything final.
LAST = 4 * END
#: When the statements have been sent, and when all records have been.
_BEGIN_S, _UNTIL_S = 4.0, 30.0
#: The least and greatest duration of a fault, by kind.
_DURATIONS: dict[Kind, tuple[float, float]] = {
    "request lost": (0, 0), "answer lost": (0, 0), "request late": (0.01, 30), "slow": (0.1, 20),
    "leader moves": (0, 0), "broker restarts": (0.5, 15), "store restarts": (0.5, 10), "store loses all": (0.5, 5),
    "store goes back": (1, 20), "store full": (1, 10), "bit flips": (0, 0), "files lost": (0.5, 5),
    "disk full": (1, 10), "kill": (0.2, 15), "pause": (0.5, 90), "clock jumps": (-3600, 3600),
}  # fmt: skip
#: How often each kind is drawn.
_WEIGHTS: dict[Kind, int] = {
    "request lost": 3, "answer lost": 5, "request late": 8, "slow": 2, "leader moves": 1, "broker restarts": 2,
    "store restarts": 2, "store loses all": 1, "store goes back": 2, "store full": 1, "bit flips": 2, "files lost": 1,
    "disk full": 1, "kill": 6, "pause": 3, "clock jumps": 1,
}  # fmt: skip
_KAFKA = ("EndTxn", "AddPartitionsToTxn", "Produce", "InitProducerId", "Fetch", "ListOffsets", "Metadata", "")
_STORE = ("commit", "claim", "write", "read", "delete", "set_assignments", "")
_NET: tuple[Kind, ...] = ("request lost", "answer lost", "request late", "slow")


@dataclass(frozen=True)
class Drawn:
    """A history, and the case of the oracle that its records come from."""

    history: History
    case: Case
    #: Whether DuckDB knows the relations: the records of each source are in one partition, and no source is idle.
    ordered: bool


def drawn(seed: int) -> Drawn:
    """The history of a seed."""
    chance = Random(f"history {seed}")
    case = _case(chance)
    layout = Layout(
        executors=chance.choice([1, 2, 2, 3]),
        fragments=chance.choice([1, 2]),
        targets=chance.choice([1, 2, 3]),
        brokers=chance.choice([1, 2, 3]),
        transaction_version=chance.choice([1, 1, 2]),
        verification=chance.choice([True, False]),
        batch_records=chance.choice([1, 3, 10, 40]),
    )
    parts = {f"t{source.number}": chance.choice([1, 1, 2]) for source in case.sources}
    ordered = chance.random() < 0.6 and not case.tables
    if ordered:
        parts = dict.fromkeys(parts, 1)
    statements = [*_inputs(case, ordered=ordered, chance=chance), *_queries(case, chance)]
    records = in_order(
        publication
        for source in case.sources
        for publication in _publications(source, parts[f"t{source.number}"], chance)
    )
    faults = tuple(sorted(_faults(layout, chance), key=lambda fault: fault.at_s))
    return Drawn(History(seed, parts, tuple(statements), records, faults, layout), case, ordered)


def _case(chance: Random) -> Case:
    while True:
        data = ConjectureData(random=Random(chance.random()), provider=EvenProvider)
        try:
            with BuildContext(data, wrapped_test=_case):
                return data.draw(cases(6, 3, with_tables=False))
        except (StopTest, UnsatisfiedAssumption):
            continue


def _inputs(case: Case, *, ordered: bool, chance: Random) -> Iterator[Statement]:
    """The sources and streams. If the case is ordered, no source is ever idle."""
    for at, source in enumerate(case.sources):
        idle = " IDLE AFTER 10000 SECONDS" if ordered else chance.choice(["", "", " IDLE AFTER 1 SECONDS"])
        first, rest = source.sql.split("; ", 1)
        yield Statement(0.2 + at / 10, f"{first}{idle}")
        yield Statement(0.25 + at / 10, rest)


def _queries(case: Case, chance: Random) -> Iterator[Statement]:
    at_s = chance.choice([1.0, 1.0, _UNTIL_S / 2, _UNTIL_S])
    for number, sql in enumerate(case.statements[len(case.inputs) :]):
        yield Statement(at_s + number / 10, sql)


def _publications(source: Source, partitions: int, chance: Random) -> Iterator[Publication]:
    """The records and heartbeats of a source, dealt out to its partitions; a heartbeat ends each partition."""
    topic, at_s = f"t{source.number}", _BEGIN_S
    pause_s = (_UNTIL_S - _BEGIN_S) / max(len(source.events), 1)
    for number, event in enumerate(source.events):
        at_s += chance.uniform(0, pause_s)
        if isinstance(event, Record):
            value, op = json.dumps(event.row, default=_text).encode(), "-" if event.deletion else None
            yield Publication(at_s, topic, number % partitions, value, ts=event.ts, op=op)
        elif isinstance(event, Advance):
            for partition in range(partitions):
                yield Publication(at_s, topic, partition, heartbeat=event.ts)
    for partition in range(partitions):
        yield Publication(_UNTIL_S, topic, partition, heartbeat=LAST)


def _text(value: object) -> str:
    """A decimal, date or timestamp as JSON text."""
    return f"{value.isoformat()}Z" if isinstance(value, datetime) else str(value)


def _faults(layout: Layout, chance: Random) -> Iterator[Fault]:
    executors = [f"executor-{number}" for number in range(1, layout.executors + 1)]
    for _ in range(chance.choice([0, 1, 2, 3, 5, 8])):
        (kind,) = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        at_s = round(chance.uniform(0.5, _UNTIL_S), 3)
        target, operation = chance.choice([*executors, *executors, "coordinator"]), ""
        if kind in _NET:
            operation = chance.choice(_KAFKA if chance.random() < 0.8 else _STORE)
        elif kind in ("leader moves", "broker restarts"):
            target = f"broker-{chance.randint(1, layout.brokers)}"
        elif kind.startswith("store"):
            target = ""
        elif kind in ("bit flips", "files lost", "disk full"):
            target = chance.choice(executors)
        yield Fault(at_s, kind, target, operation, _duration(kind, chance))


def _duration(kind: Kind, chance: Random) -> float:
    least, most = _DURATIONS[kind]
    if least <= 0:
        return round(chance.uniform(least, most), 3)
    return round(math.exp(chance.uniform(math.log(least), math.log(most))), 3)


def without_faults(drawn: Drawn) -> Drawn:
    """The same without faults."""
    return replace(drawn, history=replace(drawn.history, faults=()))
