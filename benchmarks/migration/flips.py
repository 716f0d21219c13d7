"""A workload whose statistics alternate: first one and then the other of two joins produces many pairs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from dsms.coordinator.statements.orders_by_statistics import GAIN
from dsms.introspection.statistics import statistics_of
from dsms.planner.physical.cost.join_choice import cheapest_orders
from dsms.registration.join_orders import order_text
from dsms.testing import LocalSession

#: Records in a push (one an instant), pushes in a phase, and phases. A phase is much longer than a window, because a
#: change of the order takes a whole window.
CHUNK, PUSHES, PHASES, WINDOW = 500, 120, 4, 2_500
#: The number of key values of the join that produces many pairs, and of the other one.
FEW, MANY = 20, 50_000
#: In this number of successive checks another order must be expected to process `GAIN` times fewer rows.
LOOKS = 3
_TEXT = """CREATE QUERY Q AS SELECT STREAMED v, COUNT(*) AS n FROM SO [RANGE {window}]
    JOIN SA [RANGE {window}] ON a = oa JOIN SB [RANGE {window}] ON b = ob GROUP BY v"""


@dataclass
class Run:
    """Processor seconds of each push, and the pushes after which the order was changed."""

    busy: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    rows: int = 0


def run(order: str | None) -> Run:
    """Runs the workload with a fixed order or, if None, with changes to the order that is measured to be better."""
    session, done = LocalSession(), Run()
    for name, columns in {"O": "oa INT, ob INT, v INT", "A": "a INT", "B": "b INT"}.items():
        session.execute(f"REGISTER SOURCE T{name} ({columns}) FROM {name}; CREATE STREAM S{name} OVER T{name} KEY NULL")
    session.execute(_TEXT.format(window=WINDOW))
    if order is not None:
        session.execute(f"ALTER QUERY Q SET (join_order = '{order}')")
    rng, better = np.random.default_rng(7), 0
    for push in range(PHASES * PUSHES):
        of_a, of_b = (FEW, MANY) if push // PUSHES % 2 == 0 else (MANY, FEW)
        records = _records(rng, push * CHUNK, of_a, of_b)
        began = time.process_time()
        for name, rows in records.items():
            session.push(f"T{name}", rows)
        if order is None:
            better = _looked(session, better)
            if better == LOOKS:
                better = 0
                done.changed.append(push)
        done.busy.append(time.process_time() - began)
    session.advance(PHASES * PUSHES * CHUNK)
    done.rows = len(session.changes("Q"))
    return done


def _looked(session: LocalSession, better: int) -> int:
    """The number of successive checks, with this one, in which another order was better. Changes to that order in check
    number `LOOKS`."""
    query = session.catalog.find("Q")
    plan = next(plan for plan in session.runtime.revision.plan.queries.values() if plan.sink == query)
    choice = cheapest_orders(plan, statistics_of(session.reports()))
    if query.next_join_orders is not None or choice is None or choice.gain < GAIN:  # type: ignore[union-attr]
        return 0
    if better + 1 == LOOKS:
        text = order_text(choice.orders)
        session.execute(f"ALTER QUERY Q SET (join_order = '{text}'); ALTER QUERY Q SET (join_order = AUTO)")
    return better + 1


def _records(rng: np.random.Generator, first: int, of_a: int, of_b: int) -> dict[str, list[dict[str, object]]]:
    instants = range(first, first + CHUNK)
    oa, a = rng.integers(0, of_a, (2, CHUNK)).tolist()
    ob, b = rng.integers(0, of_b, (2, CHUNK)).tolist()
    v = rng.integers(0, 100, CHUNK).tolist()
    orders = [{"oa": x, "ob": y, "v": z, "ts": at} for x, y, z, at in zip(oa, ob, v, instants, strict=True)]
    return {
        "O": orders,
        "A": [{"a": value, "ts": at} for value, at in zip(a, instants, strict=True)],
        "B": [{"b": value, "ts": at} for value, at in zip(b, instants, strict=True)],
    }
