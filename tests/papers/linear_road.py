"""A small Linear Road: seeded traffic, and tolls and accidents computed from their definitions in plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MILE = 1760
SECOND = 1000
#: A segment is congested if its mean speed in the last five minutes is lower.
SLOW = 40
#: The greatest number of cars in a segment without toll (50 in Linear Road).
FREE = 5

Segment = tuple[int, int, int]


@dataclass(frozen=True)
class Report:
    """The report that a car sends every 30 seconds; `ts` is in milliseconds."""

    ts: int
    car_id: int
    speed: int
    exp_way: int
    lane: int
    dir: int
    x_pos: int

    @property
    def segment(self) -> Segment:
        """Expressway, direction and mile."""
        return self.exp_way, self.dir, self.x_pos // MILE

    @property
    def position(self) -> tuple[int, int, int, int]:
        """The position of the car on its expressway."""
        return self.exp_way, self.lane, self.dir, self.x_pos


def traffic(cars: int, minutes: int, seed: int) -> list[Report]:
    """Reports in the order of time, with slow cars in mile 1, two accidents, and cars that skip reports."""
    chosen = random.Random(seed)
    journeys = [list(_journey(car, minutes, chosen)) for car in range(cars)]
    return sorted((report for journey in journeys for report in journey), key=lambda report: (report.ts, report.car_id))


def _journey(car: int, minutes: int, chosen: random.Random) -> Iterator[Report]:
    """A car's reports. Cars 0 and 1 stand at one position for six reports, in the jam; cars 2 and 3 at another one."""
    direction, x_pos = (0 if car < 22 else 1), chosen.randrange(2 * MILE)
    start, phase = chosen.randrange(0, 4), chosen.randrange(6) * 5 * SECOND
    crash = range(7 + car, 14 + car) if car < 4 else range(0)
    for turn in range(start, 2 * minutes):
        mile = x_pos // MILE
        speed = chosen.randrange(8, 30) if mile == 1 else chosen.randrange(35, 65)
        if turn in crash:
            speed, x_pos = 0, (1 if car < 2 else 3) * MILE + 100
        elif chosen.random() < 0.06:
            continue
        lane = 1 if turn in crash else chosen.randrange(3)
        yield Report(turn * 30 * SECOND + phase, car, speed, 0, lane, 0 if turn in crash else direction, x_pos)
        x_pos = (x_pos + speed * 44) % (5 * MILE)


class Road:
    """The definitions, evaluated at one instant over all reports so far."""

    def __init__(self, reports: Iterable[Report], at: int) -> None:
        self.at = at
        self.reports = [report for report in reports if report.ts <= at]
        self.by_car: dict[int, list[Report]] = defaultdict(list)
        for report in self.reports:
            self.by_car[report.car_id].append(report)

    def current(self) -> dict[int, Segment]:
        """The segments of the cars that reported in the last 30 seconds."""
        last = {car: reports[-1] for car, reports in self.by_car.items()}
        return {car: report.segment for car, report in last.items() if report.ts >= self.at - 30 * SECOND}

    def congested(self) -> set[Segment]:
        """Segments with a low mean speed in the last five minutes."""
        speeds = defaultdict(list)
        for report in self.reports:
            if report.ts >= self.at - 300 * SECOND:
                speeds[report.segment].append(report.speed)
        return {segment for segment, reported in speeds.items() if sum(reported) / len(reported) < SLOW}

    def accidents(self) -> set[Segment]:
        """Segments where two cars reported one position four times in a row."""
        stopped: Counter[tuple[int, int, int, int]] = Counter()
        for reports in self.by_car.values():
            if len(reports) >= 4 and len({report.position for report in reports[-4:]}) == 1:
                stopped[reports[-1].position] += 1
        return {(way, direction, x // MILE) for (way, _, direction, x), cars in stopped.items() if cars >= 2}


def tolls(reports: list[Report], accidents: bool = True) -> list[tuple[int, int, int]]:
    """(instant, car, toll) for each car that enters a congested segment with more than FREE cars and no accident."""
    charged = []
    for at in sorted({report.ts for report in reports}):
        road, before = Road(reports, at), Road(reports, at - 1).current()
        current, congested = road.current(), road.congested()
        closed = road.accidents() if accidents else set()
        volume = Counter(current.values())
        for car, segment in current.items():
            entered = before.get(car) != segment
            if entered and segment in congested and segment not in closed and volume[segment] > FREE:
                charged.append((at, car, 2 * (volume[segment] - FREE) ** 2))
    return sorted(charged)
