"""CONSTRAINT ORDERED BY in the executor's code: the published records are those of the query without the constraint
over the admitted records, for any targets, epochs, crashes and turns. Rows that a lagging partition may still need are
kept."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.support.constrained_runs import SETTINGS, SLACK, Rows, run_view

K = 3
QUERIES = [
    "SELECT c, count(*) AS n, sum(v) AS s FROM S GROUP BY c",
    "SELECT a.c, a.v, b.v AS w FROM S a JOIN L b ON a.c = b.c",
    "SELECT window_end, count(*) AS n FROM HOP(TABLE S, DESCRIPTOR(c), 5, 10) GROUP BY window_start, window_end",
    "SELECT DISTINCT c FROM S WHERE NOT EXISTS (SELECT 1 FROM L WHERE L.c = S.c)",
    "SELECT c, count(*) AS n FROM (SELECT c, n, count(*) AS m FROM (SELECT c, v, count(*) AS n FROM S GROUP BY c, v) x "
    "GROUP BY c, n) y GROUP BY c",
]


def rows(seed: int, lags: tuple[int, int]) -> list[Rows]:
    """The records (instant, c, v) of each partition in log order. One partition lags behind the other in `c`."""
    draw = random.Random(seed)
    return [
        [
            (
                max(0, at - draw.randrange(SLACK + 1)),
                2 * at - lag - draw.randrange(K + 1) - 9 * (draw.random() < 0.1),
                draw.randrange(3),
            )
            for at in range(30)
        ]
        + [(90, 99, 0)]
        for lag in lags
    ]


def admitted(part: Rows) -> Rows:
    """The records that are in time and satisfy the constraint, decided one by one."""
    high, latest, kept = -(10**9), -(10**9), []
    for instant, c, v in part:
        if c < high - K:
            continue
        high = max(high, c)
        if instant >= latest - SLACK:
            latest = max(latest, instant)
            kept.append((instant, c, v))
    return kept


@cache
def told(query: str, seed: int, constraint: str, how: tuple) -> tuple[dict, int]:
    """The published records of a view, and the number of dead letters."""
    logs = {"a": rows(seed, (0, 8)), "b": rows(seed + 50, (4, 0))}
    if not constraint:
        logs = {topic: [admitted(part) for part in parts] for topic, parts in logs.items()}
    return run_view(query, logs, {"a": constraint, "b": constraint}, how)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("how", SETTINGS)
def test_result_records_equal_those_of_records_that_satisfy_the_constraint(query: str, how: tuple) -> None:
    seed = 1 + SETTINGS.index(how) % 2
    free, _ = told(query, seed, "", (1, (10_000,), None, ()))
    whole = told(query, seed, f"CONSTRAINT ORDERED BY c WITHIN {K}", (1, (10_000,), None, ()))
    bound, dead = told(query, seed, f"CONSTRAINT ORDERED BY c WITHIN {K}", how)
    assert bound == free == whole[0]
    assert dead == whole[1] > 0
