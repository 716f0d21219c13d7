"""CONSTRAINT ORDERED BY: records that violate it are refused, results are those of the same query without the
constraint over the admitted records, and operators drop state for lower values."""

from __future__ import annotations

import random

import pytest

from dsms.testing import LocalSession
from tests.support import duck_engine

SLACK, K = 9, 4
QUERIES = {
    "grouped": "SELECT c, count(*) AS n, sum(v) AS s, max(v) AS m, count(DISTINCT v) AS d FROM S GROUP BY c",
    "grouped_more": "SELECT c, v, count(*) AS n FROM S WHERE v <> 2 GROUP BY c, v",
    "distinct": "SELECT DISTINCT c, v FROM S",
    "joined": "SELECT a.c, a.v, b.v AS w FROM S a JOIN S b ON a.c = b.c AND a.v < b.v",
    "other": "SELECT a.c, a.v, b.v AS w FROM S a JOIN U b ON a.c = b.c",
    "left": "SELECT a.c, a.v, b.v AS w FROM S a LEFT JOIN (SELECT * FROM S WHERE v = 1) b ON a.c = b.c",
    "without": "SELECT c, v FROM S a WHERE NOT EXISTS (SELECT 1 FROM S b WHERE b.c = a.c AND b.v = 3)",
    "except": "SELECT c FROM S WHERE v < 3 EXCEPT SELECT c FROM S WHERE v = 4",
    "union": "SELECT c, count(*) AS n FROM (SELECT c FROM S UNION ALL SELECT c FROM U) x GROUP BY c",
    "twice": "SELECT n, count(*) AS cc FROM (SELECT c, count(*) AS n FROM S GROUP BY c) x GROUP BY n",
    "best": "SELECT c, v FROM (SELECT c, v, row_number() OVER (PARTITION BY c ORDER BY v, id) AS r FROM S) x "
    "WHERE r <= 2",
    "over": "SELECT c, v, sum(v) OVER (PARTITION BY c) AS s FROM S",
    "keyed": "SELECT v, count(*) AS n FROM KAT GROUP BY v",
    "other_key": "SELECT c, count(*) AS n FROM KV GROUP BY c",
}
#: Queries over windows. Their rows end, but no row is below the bounds; therefore their joins drop state too. At the
#: end of a run all windows are empty.
WINDOWED = {
    "pairs": "SELECT a.id, b.id AS other FROM S [Range 40] a JOIN U [Range 90] b ON a.c = b.c AND a.v <= b.v",
    "kept": "SELECT id, c FROM S [Range 50] a WHERE EXISTS (SELECT 1 FROM U [Range 70] b WHERE b.c = a.c)",
    "padded": "SELECT a.c, a.v, b.v AS w FROM S [Range 40] a LEFT JOIN U [Range 30] b ON a.c = b.c",
    "three": "SELECT a.c, count(*) AS n FROM S [Range 40] a JOIN U b ON a.c = b.c JOIN S [Range 9] d ON b.c = d.c "
    "GROUP BY a.c",
    "slides": "SELECT a.c, a.v, b.v AS w FROM S [Range 60 Slide 20] a JOIN U [Range 90] b ON a.c = b.c",
}
STREAMS = "CREATE STREAM S OVER T KEY NULL; CREATE STREAM U OVER O KEY NULL; CREATE STREAM KAT OVER T KEY c; "
STREAMS += "CREATE STREAM KV OVER T KEY v"


def log(seed: int, count: int = 60, lag: int = 0) -> list[dict]:
    """Records whose column `c` almost ascends. Sometimes it is lower than the constraint permits, or far higher."""
    draw, records = random.Random(seed), []
    for number in range(count):
        c = number - lag - draw.randrange(K + 1) - (draw.random() < 0.1) * draw.randrange(12)
        c += 9 * (draw.random() < 0.02)
        ts = number - draw.randrange(SLACK + 1) - (draw.random() < 0.05) * 5
        records.append({"id": number, "c": None if draw.random() < 0.05 else c, "v": draw.randrange(5), "ts": ts})
    return records


def admitted(records: list[dict]) -> tuple[list[dict], dict[int, str]]:
    """The admitted records and the reasons why others are refused, decided record by record."""
    high, latest, kept, refused = None, None, [], {}
    for offset, record in enumerate(records):
        c = record["c"]
        if c is not None:
            if high is not None and c < high - K:
                refused[offset] = f"violates ORDERED BY c WITHIN {K}: the value {c} is below {high - K}"
                continue
            high = c if high is None else max(high, c)
        if latest is not None and record["ts"] < latest - SLACK:
            refused[offset] = "late"
            continue
        latest = record["ts"] if latest is None else max(latest, record["ts"])
        kept.append(record)
    return kept, refused


def session(
    records: list[dict], others: list[dict], constraint: str, how: tuple, queries: dict[str, str], until: int = 10_000
) -> LocalSession:
    partitions, batch, pieces = how
    made = LocalSession(partitions=partitions, batch_records=batch)
    columns = f"(id INT, c BIGINT, v INT) FROM t SLACK {SLACK} {constraint}"
    made.execute(f"REGISTER SOURCE T {columns}; REGISTER SOURCE O {columns}; {STREAMS}")
    for name, query in queries.items():
        made.execute(f"CREATE STREAMED VIEW V_{name} AS {query}")
    for piece in range(pieces):
        for source, log_ in (("T", records), ("O", others)):
            made.push(source, log_[len(log_) * piece // pieces : len(log_) * (piece + 1) // pieces])
    made.advance(until)
    return made


def last(kept: list[dict], key: str) -> list[dict]:
    """The last record of each key, by instant, then offset."""
    return list({record[key]: record for record in sorted(kept, key=lambda record: record["ts"])}.values())


def expected(kept: list[dict], others: list[dict]) -> dict[str, list[tuple]]:
    """The results over the admitted records, by DuckDB."""
    database = duck_engine.connection()
    tables = {"S": kept, "U": others, "KAT": last(kept, "c"), "KV": last(kept, "v")}
    for name, rows in tables.items():
        database.execute(f"CREATE TEMP TABLE {name} (id INT, c BIGINT, v INT)")
        duck_engine.fill(database, name, [(r["id"], r["c"], r["v"]) for r in rows])
    return {name: in_order(database.execute(query).fetchall()) for name, query in QUERIES.items()}


def in_order(rows: list[tuple]) -> list[tuple]:
    return sorted((tuple(row) for row in rows), key=lambda row: [(value is None, value or 0) for value in row])


@pytest.mark.parametrize(("seed", "how"), [(1, (1, None, 4)), (2, (2, 3, 2)), (3, (3, 7, 1)), (4, (1, 1, 1))])
def test_results_equal_those_of_the_records_that_satisfy_the_constraint(seed: int, how: tuple) -> None:
    records, others = log(seed), log(seed + 100, lag=9)
    (kept, refused), (others_kept, _) = admitted(records), admitted(others)
    bound = session(records, others, f"CONSTRAINT ORDERED BY c WITHIN {K}", how, QUERIES)
    free = session(kept, others_kept, "", (1, None, 1), QUERIES)
    wanted = expected(kept, others_kept)
    assert any(reason.startswith("violates") for reason in refused.values())
    reasons = {letter["offset"]: letter["reason"] for letter in bound.dead_letters("T")}
    assert reasons.keys() == refused.keys()
    assert all(reasons[offset].startswith(reason) for offset, reason in refused.items())
    for name in QUERIES:
        assert bound.changes(f"V_{name}") == free.changes(f"V_{name}"), name
        rows = [tuple(row.values()) for row in bound.relation(f"V_{name}")]
        assert in_order(rows) == wanted[name], name


@pytest.mark.parametrize(("seed", "how"), [(5, (1, None, 4)), (6, (2, 3, 2)), (7, (1, 1, 1))])
def test_windows_join_as_without_the_promise(seed: int, how: tuple) -> None:
    records, others = log(seed), log(seed + 100, lag=9)
    kept, others_kept = admitted(records)[0], admitted(others)[0]
    bound = session(records, others, f"CONSTRAINT ORDERED BY c WITHIN {K}", how, WINDOWED)
    free = session(kept, others_kept, "", (1, None, 1), WINDOWED)
    for name in WINDOWED:
        assert bound.changes(f"V_{name}") == free.changes(f"V_{name}") != [], name
    pairs = [(row["id"], row["other"]) for op, row, *_ in bound.changes("V_pairs") if op == "+"]
    assert sorted(pairs) == sorted(
        (a["id"], b["id"])
        for a in kept
        for b in others_kept
        if a["c"] == b["c"] is not None and a["v"] <= b["v"] and a["ts"] <= b["ts"] + 90 and b["ts"] <= a["ts"] + 40
    )


def state_rows(made: LocalSession) -> dict[str, int]:
    """The number of rows of state by kind of operator, without buffers."""
    sizes: dict[str, int] = {}
    for report in made.reports():
        for operator in report.operators:
            if operator.operator not in ("Reorder", "Lowest"):
                sizes[operator.operator] = sizes.get(operator.operator, 0) + operator.state_rows
    return sizes


def test_state_does_not_grow_with_the_log() -> None:
    ordered = f"CONSTRAINT ORDERED BY c WITHIN {K}"
    records = [{"id": n, "c": n // 3, "v": n % 5, "ts": n} for n in range(600)]
    small, large, unbounded = (
        state_rows(session(records[:count], records[:count], constraint, (1, 60, 1), QUERIES))
        for count, constraint in ((300, ordered), (600, ordered), (600, ""))
    )
    windowed = {"pairs": WINDOWED["pairs"].replace("Range 40", "Range 900").replace("Range 90", "Range 900")}
    bound, free = (
        sum(rows for operator, rows in state_rows(made).items() if "Join" in operator)
        for made in (session(records, records, constraint, (1, 60, 1), windowed, 600) for constraint in (ordered, ""))
    )
    assert free > 5 * bound
    for operator in ("GroupBy", "Distinct", "Join", "SetOperation", "TopK", "Over"):
        assert large[operator] <= small[operator] + 400, operator
        assert unbounded[operator] > 2 * large[operator], operator
