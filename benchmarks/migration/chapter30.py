"""The experiment of chapter 30 of Krämer's thesis: a join of four streams, whose order changes after 20 of 50 s."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

from dsms.testing import LocalSession

#: The number of values of each stream. ((A ⋈ B) ⋈ C) ⋈ D becomes A ⋈ (B ⋈ (C ⋈ D)). An instant is a millisecond.
VALUES = {"A": 500, "B": 500, "C": 1_000, "D": 1_000}
WINDOW, SECONDS, RATE, BEGIN, OTHER = 10_000, 50, 100, 20, "4, 3, 2, 1"
_TEXT = """CREATE QUERY Q AS SELECT STREAMED A FROM SA [RANGE {window}] JOIN SB [RANGE {window}] ON A = B
    JOIN SC [RANGE {window}] ON B = C JOIN SD [RANGE {window}] ON C = D"""


@dataclass
class Run:
    """For each second, the number of results that began, the rows of state and the processor seconds; the seconds in
    which two plans ran; and all changes."""

    results: list[int] = field(default_factory=list)
    state: list[int] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    both: list[int] = field(default_factory=list)
    changes: list[object] = field(default_factory=list)


def run(how: str) -> Run:
    """Runs the join. `how` is "stays" (the order does not change), "beside" (the next plan reads from the present
    positions) or "catches up" (the next plan reads from the beginning)."""
    session, done = LocalSession(), Run()
    for name in VALUES:
        session.execute(
            f"REGISTER SOURCE T{name} ({name} INT) FROM {name}; CREATE STREAM S{name} OVER T{name} KEY NULL"
        )
    session.execute(_TEXT.format(window=WINDOW))
    rng, catches_up = np.random.default_rng(30), how == "catches up"
    for second in range(SECONDS):
        began = time.process_time()
        if second == BEGIN and how != "stays":
            beside = patch("dsms.runtime.lanes.revision.midway_progress", return_value=None) if catches_up else None
            if beside is not None:
                beside.start()
            session.execute(f"ALTER QUERY Q SET (join_order = '{OTHER}')")
            if beside is not None:
                beside.stop()
        for tenth in range(10):
            instants = [second * 1_000 + tenth * 100 + at * (1_000 // RATE) for at in range(RATE // 10)]
            for name, values in VALUES.items():
                drawn = rng.integers(0, values, len(instants))
                rows = [{name: int(value), "ts": at} for value, at in zip(drawn, instants, strict=True)]
                session.push(f"T{name}", rows)
        done.busy.append(time.process_time() - began)
        done.state.append(sum(operator.state_rows for report in session.reports() for operator in report.operators))
        if any(plan.next_of is not None for plan in session.runtime.revision.plan.queries.values()):
            done.both.append(second)
    session.advance(SECONDS * 1_000)
    done.changes = list(session.changes("Q"))
    begun = Counter(instant // 1_000 for op, _, instant in session.changes("Q") if op == "+")
    done.results = [begun[second] for second in range(SECONDS)]
    return done
