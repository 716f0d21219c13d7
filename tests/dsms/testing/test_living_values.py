"""CONSTRAINT CLUSTERED BY and REFERENCES: records that violate them are refused, results are those of the same query
without constraints over the admitted records, and operators drop state for values that cannot come again."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from dsms.testing import LocalSession
from tests.support import duck_engine

SLACK, K, KW, KR = 6, 7, 5, 9
QUERIES = {
    "grouped": "SELECT c, count(*) AS n, sum(v) AS s, max(v) AS m, count(DISTINCT v) AS d FROM S GROUP BY c",
    "other column": "SELECT w, count(*) AS n FROM S GROUP BY w",
    "both columns": "SELECT c, w, count(*) AS n FROM S WHERE v <> 2 GROUP BY c, w",
    "distinct": "SELECT DISTINCT c, v FROM S",
    "self join": "SELECT a.c, a.v, b.v AS w FROM S a JOIN S b ON a.c = b.c AND a.v < b.v",
    "partner": "SELECT S.id, S.c, P.v FROM S JOIN P ON S.c = P.c",
    "two payments": "SELECT a.id, b.id AS other FROM P a JOIN P b ON a.c = b.c AND a.v < b.v",
    "paid": "SELECT c, count(*) AS n, sum(v) AS s FROM P GROUP BY c",
    "unpaid": "SELECT S.id, S.c, P.v FROM S LEFT JOIN P ON S.c = P.c",
    "never paid": "SELECT id, c FROM S WHERE NOT EXISTS (SELECT 1 FROM P WHERE P.c = S.c AND P.v = 1)",
    "paid and not": "SELECT c FROM S EXCEPT SELECT c FROM P",
    "all of one life": "SELECT c, count(*) AS n FROM (SELECT c FROM S UNION ALL SELECT c FROM P) x GROUP BY c",
    "all of two lives": "SELECT c, count(*) AS n FROM (SELECT c FROM S UNION ALL SELECT c FROM U) x GROUP BY c",
    "two lives": "SELECT S.id, U.id AS other FROM S JOIN U ON S.c = U.c",
    "one life": "SELECT S.id, F.id AS other FROM S JOIN F ON S.c = F.c",
    "total": "SELECT c, sum(n) AS n FROM (SELECT S.c, P.v AS n FROM S JOIN P ON S.c = P.c) x GROUP BY c",
    "best": "SELECT c, id FROM (SELECT c, id, row_number() OVER (PARTITION BY c ORDER BY v, id) AS r FROM S) x "
    "WHERE r <= 2",
    "over": "SELECT c, id, sum(v) OVER (PARTITION BY c) AS s FROM P",
    "keyed": "SELECT v, count(*) AS n FROM LAST GROUP BY v",
    "keyed by more": "SELECT v, count(*) AS n FROM LASTCV GROUP BY v",
    "keyed by less": "SELECT c, count(*) AS n FROM LASTV GROUP BY c",
}
#: Queries over windows. Their rows end, but no row has a value whose life is over; therefore their joins drop state
#: too.
WINDOWED = [
    "SELECT S.id, P.id AS other FROM S [Range 30] JOIN P [Range 40] ON S.c = P.c",
    "SELECT S.c, count(*) AS n FROM S [Range 30] JOIN P ON S.c = P.c JOIN S [Range 9] AS T ON T.c = P.c GROUP BY S.c",
    "SELECT id, c FROM S [Range 30] WHERE EXISTS (SELECT 1 FROM P [Range 9] WHERE P.c = S.c)",
]
CONSTRAINTS = {
    "T": f"CONSTRAINT CLUSTERED BY c WITHIN {K}, CLUSTERED BY w WITHIN {KW}",
    "PT": f"CONSTRAINT c REFERENCES T (c) WITHIN {KR}",
    "UT": f"CONSTRAINT CLUSTERED BY c WITHIN {K}",
    "FT": "",
}
STREAMS = {"S": ("T", "NULL"), "P": ("PT", "NULL"), "U": ("UT", "NULL"), "F": ("FT", "NULL")}
STREAMS |= {"LAST": ("T", "c"), "LASTCV": ("T", "(c, v)"), "LASTV": ("T", "v")}
Log = list[dict]


def value(number: int) -> int:
    """A distinct number for each argument, not in the order of arguments."""
    return number * 37 % 1009


def log(seed: int, count: int, lag: int = 0) -> Log:
    """Records whose values are clustered. A few values come again much later, or are not referenced."""
    draw, records = random.Random(seed), []
    for number in range(count):
        at = number // 5 - lag - draw.randrange(2)
        at = at if draw.random() > 0.08 else draw.randrange(count // 5)
        c = None if draw.random() < 0.05 else value(at)
        w = value(number // 4 if draw.random() > 0.15 else draw.randrange(count // 4))
        ts = number - draw.randrange(SLACK + 1) - (draw.random() < 0.05) * 5
        records.append({"id": number, "c": c, "w": w, "v": draw.randrange(5), "ts": ts})
    return records


def in_time(records: Log) -> tuple[Log, set[int]]:
    """The records that are not late, in the order of instants, and the offsets of the late ones."""
    latest, kept, late = -(10**9), [], set()
    for offset, record in enumerate(records):
        if record["ts"] < latest - SLACK:
            late.add(offset)
        else:
            kept.append(record)
        latest = max(latest, record["ts"])
    return sorted(kept, key=lambda record: record["ts"]), late


def clustered(records: Log, column: str, k: int) -> tuple[Log, set[int]]:
    last, kept, refused = {}, [], set()
    for record in records:
        key = record[column]
        if key is not None and key in last and record["ts"] - last[key] > k:
            refused.add(record["id"])
            continue
        last[key] = record["ts"]
        kept.append(record)
    return kept, refused


def admitted(logs: dict[str, Log]) -> tuple[dict[str, Log], dict[str, set[int]]]:
    """The admitted records in log order and the offsets of the refused records, decided record by record."""
    kept, refused = {}, {}
    for name, records in logs.items():
        kept[name], refused[name] = in_time(records)
    for name, column, k in (("T", "c", K), ("T", "w", KW), ("UT", "c", K)):
        kept[name], more = clustered(kept[name], column, k)
        refused[name] |= more
    partners = [(record["c"], record["ts"]) for record in kept["T"]]
    for record in list(kept["PT"]):
        if record["c"] is not None and not any(c == record["c"] and 0 <= record["ts"] - ts <= KR for c, ts in partners):
            kept["PT"].remove(record)
            refused["PT"].add(record["id"])
    return {name: sorted(records, key=lambda record: record["id"]) for name, records in kept.items()}, refused


def all_logs(seed: int, count: int = 70) -> dict[str, Log]:
    lags = {"T": 0, "PT": 1, "UT": 4, "FT": 3}
    return {name: log(seed + 100 * at, count, lag) for at, (name, lag) in enumerate(lags.items())}


def session(
    logs: dict[str, Log], constraints: dict[str, str], how: tuple, queries: Iterable[str] = QUERIES.values()
) -> LocalSession:
    partitions, batch, pieces = how
    made = LocalSession(partitions=partitions, batch_records=batch)
    for name in logs:
        columns = f"(id INT, c BIGINT, w BIGINT, v INT) FROM {name} SLACK {SLACK}"
        made.execute(f"REGISTER SOURCE {name} {columns} {constraints.get(name, '')}")
    for name, (source, keys) in STREAMS.items():
        made.execute(f"CREATE STREAM {name} OVER {source} KEY {keys}")
    for number, query in enumerate(queries):
        made.execute(f"CREATE STREAMED VIEW V{number} AS {query}")
    for piece in range(pieces):
        for name, records in logs.items():
            made.push(name, records[len(records) * piece // pieces : len(records) * (piece + 1) // pieces])
    made.advance(10_000)
    return made


def in_order(rows: list[tuple]) -> list[tuple]:
    return sorted((tuple(row) for row in rows), key=lambda row: [(value is None, value or 0) for value in row])


def expected(kept: dict[str, Log], at: int) -> list[list[tuple]]:
    """The results over the admitted records up to an instant, by DuckDB."""
    database = duck_engine.connection()
    for name, (source, keys) in STREAMS.items():
        rows = sorted((record for record in kept[source] if record["ts"] <= at), key=lambda record: record["ts"])
        if keys != "NULL":
            names = keys.strip("()").split(", ")
            rows = list({tuple(record[key] for key in names): record for record in rows}.values())
        database.execute(f"CREATE TEMP TABLE {name} (id INT, c BIGINT, w BIGINT, v INT)")
        duck_engine.fill(database, name, [(record["id"], record["c"], record["w"], record["v"]) for record in rows])
    return [in_order(database.execute(query).fetchall()) for query in QUERIES.values()]


@pytest.mark.parametrize(("seed", "how"), [(1, (1, None, 4)), (2, (2, 3, 2)), (3, (3, 7, 1)), (4, (1, 1, 1))])
def test_results_equal_those_of_the_records_that_satisfy_the_constraints(seed: int, how: tuple) -> None:
    logs = all_logs(seed)
    kept, refused = admitted(logs)
    bound, free = session(logs, CONSTRAINTS, how), session(kept, {}, (1, None, 1))
    for source, name in (("T", "S"), ("PT", "P"), ("UT", "U")):
        offsets = [letter["offset"] for letter in bound.dead_letters(source) if letter["query"] in (None, name)]
        assert sorted(offsets) == sorted(refused[source]) and offsets, source
        assert bound.changes(name) == free.changes(name)
    for number, query in enumerate(QUERIES.values()):
        assert bound.changes(f"V{number}") == free.changes(f"V{number}"), query
    for at in range(0, 90, 6):
        for number, (query, wanted) in enumerate(zip(QUERIES.values(), expected(kept, at), strict=True)):
            rows = [tuple(row.values()) for row in bound.relation(f"V{number}", at=at)]
            assert in_order(rows) == wanted, (at, query)


@pytest.mark.parametrize(("seed", "how"), [(8, (2, 3, 2)), (6, (1, 1, 1))])
def test_windows_join_as_without_the_promises(seed: int, how: tuple) -> None:
    logs = all_logs(seed)
    kept, _ = admitted(logs)
    bound, free = session(logs, CONSTRAINTS, how, WINDOWED), session(kept, {}, (1, None, 1), WINDOWED)
    for number, query in enumerate(WINDOWED):
        assert bound.changes(f"V{number}") == free.changes(f"V{number}") != [], query


def state_rows(made: LocalSession) -> dict[str, int]:
    """The number of rows of state by kind of operator, without buffers."""
    sizes: dict[str, int] = {}
    for report in made.reports():
        for operator in report.operators:
            if operator.operator != "Reorder":
                sizes[operator.operator] = sizes.get(operator.operator, 0) + operator.state_rows
    return sizes


def after(queries: list[str], count: int, constraints: dict[str, str]) -> LocalSession:
    """A session whose queries have read `count` records of each source."""
    made = LocalSession(batch_records=60)
    for name in ("T", "PT"):
        columns = f"(id INT, c BIGINT, w BIGINT, v INT) FROM {name}"
        made.execute(f"REGISTER SOURCE {name} {columns} {constraints.get(name, '')}")
    for name, (source, keys) in STREAMS.items():
        if source in ("T", "PT") and name != "LASTV":
            made.execute(f"CREATE STREAM {name} OVER {source} KEY {keys}")
    for number, name in enumerate(queries):
        made.execute(f"CREATE STREAMED VIEW V{number} AS {QUERIES[name]}")
    records = [{"id": n, "c": value(n // 3), "w": value(n // 3), "v": n % 5, "ts": n} for n in range(count)]
    for piece in range(0, count, 60):
        made.push("T", records[piece : piece + 60])
        made.push("PT", records[piece : piece + 60])
    assert not made.dead_letters("T") and not made.dead_letters("PT")
    return made


def test_state_does_not_grow_with_the_log() -> None:
    """The exception is eight bytes for each value that cannot come again."""
    queries = [name for name in QUERIES if "two lives" not in name and name not in ("one life", "keyed by less")]
    small, large, unbounded = (
        state_rows(after(queries, count, constraints))
        for count, constraints in ((300, CONSTRAINTS), (900, CONSTRAINTS), (900, {}))
    )
    for operator in ("GroupBy", "Distinct", "Join", "SetOperation", "TopK", "Over", "Tagger", "Living", "Referenced"):
        assert large[operator] <= small[operator] + 100, operator
        assert operator not in unbounded or unbounded[operator] > 2 * large[operator], operator
    assert large["Clustered"] <= small["Clustered"] + 2 * 200 + 20
