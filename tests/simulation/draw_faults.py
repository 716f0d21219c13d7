"""Draws faults: some alone, others in groups that belong together, such as a lost answer and a kill just after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from connectors.simulation.faults import Fault, Kind
from dsms.simulation.history import Layout
from dsms.simulation.random_layouts import CONNECTION_FAULTS, random_duration, random_fault, random_operation

#: When records are published.
_PUBLISHING_S = (4.0, 30.0)


@dataclass(frozen=True)
class _Drawing:
    """What faults are drawn for."""

    layout: Layout
    moments: Sequence[float]
    until_s: float
    chance: Random

    def executor(self) -> str:
        return self.chance.choice(self.layout.executor_names)

    def at_s(self) -> float:
        """When faults begin: often just before something changes."""
        if self.moments and self.chance.random() < 0.7:
            before_s = self.chance.choice([-0.2, 0.05, 0.5, 2])
            return max(round(self.chance.choice(self.moments) - before_s, 3), 0.5)
        return round(self.chance.uniform(0.5, self.until_s), 3)

    def operation(self) -> str:
        return random_operation(self.chance)

    def of(self, kind: Kind, at_s: float, target: str = "", operation: str = "") -> Fault:
        return Fault(at_s, kind, target, operation, random_duration(kind, self.chance))


def faults(layout: Layout, moments: Sequence[float], until_s: float, chance: Random, theme: str) -> tuple[Fault, ...]:
    """Faults of a history. `moments` are the times at which something changes. A history with a theme has the faults of
    this theme only."""
    drawing = _Drawing(layout, moments, until_s, chance)
    alone = 0 if theme else chance.choice([0, 0, 1, 2, 3, 5])
    found = [random_fault(layout, chance, drawing.at_s()) for _ in range(alone)]
    groups = [_THEMES[theme]] * 2 if theme else [chance.choice(_GROUPS) for _ in range(chance.choice([0, 1, 1, 2]))]
    for group in groups:
        found += group(drawing)
    return tuple(sorted(found, key=lambda fault: fault.at_s))


def _late(drawing: _Drawing) -> Iterator[Fault]:
    """Requests of transactions are late or lost for a while."""
    chance = drawing.chance
    operation = chance.choice(("EndTxn", "EndTxn", "EndTxn", "Produce", "AddPartitionsToTxn", "InitProducerId"))
    yield from _in_a_row(drawing, chance.choice(("request late", "request late", "answer lost")), operation)


def _late_commits(drawing: _Drawing) -> Iterator[Fault]:
    """Commits are late now and then, so that each is sent again at once. The executor may be killed soon after the last
    one, before later transactions hide what it has done."""
    chance, target = drawing.chance, drawing.executor()
    times = sorted(round(chance.uniform(*_PUBLISHING_S), 3) for _ in range(chance.choice([3, 6, 12])))
    for at_s in times:
        meets = chance.choice(("Produce", "Produce", "AddPartitionsToTxn"))
        yield Fault(at_s, "request late", target, "EndTxn", round(chance.uniform(1, 30), 3), meets)
    if chance.random() < 0.5:
        yield drawing.of("kill", round(times[-1] + chance.uniform(0.1, 3), 3), target)


def _lost_commits(drawing: _Drawing) -> Iterator[Fault]:
    yield from _in_a_row(drawing, "request lost", "EndTxn")


def _in_a_row(drawing: _Drawing, kind: Kind, operation: str) -> Iterator[Fault]:
    """Some requests of an executor fail. Late ones arrive together with one of the next transaction. The executor may
    be killed soon after, before later transactions hide what a late request has done."""
    chance, at_s, target = drawing.chance, drawing.at_s(), drawing.executor()
    for _ in range(chance.choice([1, 3, 6])):
        meets = chance.choice(("Produce", "Produce", "AddPartitionsToTxn", "EndTxn"))
        yield Fault(at_s, kind, target, operation, round(chance.uniform(1, 30), 3), meets)
        at_s = round(at_s + chance.uniform(0.1, 3), 3)
    if chance.random() < 0.5:
        yield drawing.of("kill", at_s, target)


def _struck(drawing: _Drawing) -> Iterator[Fault]:
    """An executor is paused or killed while a request is on its way, which may be lost."""
    at_s, target, operation = drawing.at_s(), drawing.executor(), drawing.operation()
    yield drawing.of(drawing.chance.choice(("pause", "pause", "kill")), at_s, target, operation)
    if drawing.chance.random() < 0.5:
        yield drawing.of(drawing.chance.choice(CONNECTION_FAULTS), at_s, target, operation)


def _absent(drawing: _Drawing) -> Iterator[Fault]:
    """An executor stands still in a transaction while something changes, and goes on afterwards."""
    chance, target = drawing.chance, drawing.executor()
    operation = chance.choice(("AddPartitionsToTxn", "Produce", "EndTxn", "commit"))
    moment = chance.choice(drawing.moments) if drawing.moments else drawing.at_s()
    at_s = max(round(moment - chance.choice([0.1, 1, 3]), 3), 0.5)
    yield Fault(at_s, "pause", target, operation, round(chance.uniform(5, 40), 3))
    if chance.random() < 0.5:
        yield Fault(at_s, "request lost", target, operation)


def _absent_while_publishing(drawing: _Drawing) -> Iterator[Fault]:
    """An executor stands still from when it publishes results of the query until something has changed. Its request may
    be lost, so that it is sent again afterwards."""
    chance, target = drawing.chance, drawing.executor()
    added_at_coordinator = drawing.layout.transaction_version == 1
    operation = f"{'AddPartitionsToTxn' if added_at_coordinator else 'Produce'} dsms.Q"
    at_s = round(chance.uniform(_PUBLISHING_S[0], chance.choice(drawing.moments)), 3)
    yield Fault(at_s, "pause", target, operation, round(chance.uniform(20, 60), 3))
    if not added_at_coordinator or chance.random() < 0.3:
        yield Fault(at_s, "request lost", target, operation)


def _forgotten_while_publishing(drawing: _Drawing) -> Iterator[Fault]:
    """The same, and the store may forget the executor meanwhile."""
    yield from _absent_while_publishing(drawing)
    if drawing.chance.random() < 0.5:
        yield drawing.of("store loses all", round(drawing.chance.choice(drawing.moments) - 1, 3))


def _damaged(drawing: _Drawing) -> Iterator[Fault]:
    """Files are damaged, then the executor starts again and reads them."""
    yield from _flipped(drawing, 8)


def _much_damaged(drawing: _Drawing) -> Iterator[Fault]:
    """The same with more flips: most bits of a small file are padding."""
    yield from _flipped(drawing, 40)


def _flipped(drawing: _Drawing, most: int) -> Iterator[Fault]:
    at_s, target = drawing.at_s(), drawing.executor()
    for _ in range(drawing.chance.randint(1, most)):
        yield drawing.of("bit flips", at_s, target)
    yield drawing.of("kill", round(at_s + drawing.chance.uniform(0.01, 1), 3), target)


def _forgotten(drawing: _Drawing) -> Iterator[Fault]:
    """The store forgets what executors reported, while one of them is cut off or slow."""
    at_s = drawing.at_s()
    yield drawing.of(drawing.chance.choice(("store loses all", "store goes back")), at_s)
    kind: Kind = drawing.chance.choice(("pause", "slow", "request late"))
    yield drawing.of(kind, at_s, drawing.executor(), drawing.operation())


def _any(drawing: _Drawing) -> Iterator[Fault]:
    yield from drawing.chance.choice(_GROUPS)(drawing)


_GROUPS: tuple[Callable[[_Drawing], Iterator[Fault]], ...] = (
    _late,
    _late,
    _struck,
    _absent,
    _absent,
    _damaged,
    _forgotten,
)
#: Themes of histories, with the faults that belong to them.
_THEMES: dict[str, Callable[[_Drawing], Iterator[Fault]]] = {
    "late commits": _late_commits,
    "lost commits": _lost_commits,
    "recreated": _absent_while_publishing,
    "replaced": _forgotten_while_publishing,
    "damaged": _much_damaged,
    "silent": _late,
    "divided": _any,
}
