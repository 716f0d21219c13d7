"""CONSTRAINT CLUSTERED BY and REFERENCES in the executor's code: the published records are those of the query without
constraints over the admitted records, for any targets, epochs, crashes and turns. A value may come in any partition."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.support.constrained_runs import SETTINGS, SLACK, Rows, run_view

K, KR = 5, 7
#: Constraints by source. No record breaks the second one of `a`: it adds stages between the operator that checks the
#: first one and the operators that drop state because of it.
PROMISES = {
    "a": f"CONSTRAINT CLUSTERED BY c WITHIN {K}, CLUSTERED BY v WITHIN 1000",
    "b": f"CONSTRAINT c REFERENCES A (c) WITHIN {KR}",
}
QUERIES = {
    "SELECT c, count(*) AS n, sum(v) AS s FROM S GROUP BY c": "a",
    "SELECT c, v, count(*) AS n FROM L GROUP BY c, v": "ab",
    "SELECT a.c, a.v, b.v AS w FROM S a JOIN L b ON a.c = b.c": "ab",
    "SELECT v, count(*) AS n FROM (SELECT DISTINCT c, v FROM L) x GROUP BY v": "ab",
    "SELECT DISTINCT c FROM S WHERE NOT EXISTS (SELECT 1 FROM L WHERE L.c = S.c)": "ab",
}


def rows(seed: int, lag: int) -> list[Rows]:
    """The records (instant, c, v) of each partition in log order. Some values come very late or are not referenced."""
    draw = random.Random(seed)
    return [
        [
            (
                max(0, at - draw.randrange(SLACK + 1)),
                ((at - lag) // 4 if draw.random() < 0.85 else draw.randrange(9)) * 37 % 101,
                draw.randrange(3),
            )
            for at in range(36)
        ]
        + [(90, 99, 0)]
        for _ in range(2)
    ]


def in_time(part: Rows) -> list[bool]:
    latest, fine = -(10**9), []
    for instant, _, _ in part:
        fine.append(instant >= latest - SLACK)
        latest = max(latest, instant)
    return fine


def admitted(logs: dict[str, list[Rows]]) -> dict[str, list[Rows]]:
    """The records that are in time and satisfy the constraints, decided one by one in the order of instants."""
    placed = {
        topic: sorted(
            (row[0], part, at, *row[1:])
            for part, records in enumerate(parts)
            for at, (row, fine) in enumerate(zip(records, in_time(records), strict=True))
            if fine
        )
        for topic, parts in logs.items()
    }
    last, left, many = {}, [], []
    for record in placed["a"]:
        instant, _, _, c, _ = record
        if instant - last.get(c, instant) <= K:
            last[c] = instant
            left.append(record)
    for record in placed["b"]:
        if any(c == record[3] and 0 <= record[0] - instant <= KR for instant, _, _, c, _ in left):
            many.append(record)
    kept = {"a": left, "b": many}
    return {
        topic: [
            [(instant, c, v) for instant, at, _, c, v in sorted(records, key=lambda r: r[2]) if at == part]
            for part in (0, 1)
        ]
        for topic, records in kept.items()
    }


def all_rows(seed: int) -> dict[str, list[Rows]]:
    return {"a": rows(seed, 0), "b": rows(seed + 50, 4)}


@cache
def told(query: str, seed: int, bound: bool, how: tuple) -> tuple[dict, int]:
    """The published records of a view, and the number of dead letters."""
    logs = all_rows(seed) if bound else admitted(all_rows(seed))
    return run_view(query, logs, PROMISES if bound else {}, how)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("how", SETTINGS)
def test_result_records_equal_those_of_records_that_satisfy_the_constraints(query: str, how: tuple) -> None:
    seed = 1 + SETTINGS.index(how) % 2
    free, _ = told(query, seed, False, (1, (10_000,), None, ()))
    bound, dead = told(query, seed, True, how)
    everything, kept = all_rows(seed), admitted(all_rows(seed))
    assert bound == free
    left_out = [len(everything[topic][part]) - len(kept[topic][part]) for topic in QUERIES[query] for part in (0, 1)]
    assert dead == sum(left_out) > 0
