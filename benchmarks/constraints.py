"""How much state constraints save: `python -m benchmarks.constraints`.

Each query runs twice over the same records in this process, with and without constraints: `ORDERED BY` if ids ascend,
and `CLUSTERED BY` with `REFERENCES` if ids have no order. Both runs must publish the same changes in the same order.
The benchmark measures the rows and bytes of the state at the end (without the buffers of records whose instants are not
final, which both runs have) and the run time in seconds. Writes `benchmarks/out/constraints.json`.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dsms.testing import LocalSession

OUT = Path(__file__).parent / "out" / "constraints.json"
K, DELAY, ITEMS, BATCH = 1_000, 4_000, 4, 10_000
#: Each order has `ITEMS` items; each payment names an order.
SOURCES = """REGISTER SOURCE Orders (id BIGINT, item INT, price INT) FROM orders {orders};
REGISTER SOURCE Payments (id BIGINT, paid INT) FROM payments {payments};
CREATE STREAM O OVER Orders KEY NULL; CREATE STREAM P OVER Payments KEY NULL;
CREATE STREAM L OVER Orders KEY (id, item)"""
QUERIES = {
    "GROUP BY id": "SELECT id, count(*) AS n, sum(price) AS total, max(price) AS most FROM O GROUP BY id",
    "DISTINCT id": "SELECT DISTINCT id FROM O",
    "join on id": "SELECT O.id, item, price, paid FROM O JOIN P ON O.id = P.id",
    "join of windows on id": "SELECT O.id, item, price, paid FROM O [Range 40000] JOIN P [Range 40000] ON O.id = P.id",
    "left join on id": "SELECT O.id, item, price, paid FROM O LEFT JOIN P ON O.id = P.id",
    "NOT EXISTS by id": "SELECT id, item FROM O WHERE NOT EXISTS (SELECT 1 FROM P WHERE P.id = O.id)",
    "two best of each id": "SELECT id, price FROM (SELECT id, price, row_number() OVER (PARTITION BY id ORDER BY price "
    "DESC) AS r FROM O) x WHERE r <= 2",
    "TUMBLE over id": "SELECT window_start, count(*) AS n FROM TUMBLE(TABLE O, DESCRIPTOR(id), 1000) "
    "GROUP BY window_start, window_end",
    "stream keyed by (id, item)": "SELECT item, sum(price) AS total FROM L GROUP BY item",
}


@dataclass(frozen=True)
class Run:
    """The changes that a query published, and the rows and bytes of its state."""

    changes: list[object]
    rows: int
    size: int
    seconds: float


Logs = dict[str, list[dict[str, int]]]


@dataclass(frozen=True)
class Kind:
    """Records that satisfy constraints, and the clauses that declare the constraints of both sources."""

    name: str
    logs: Callable[[int], Logs]
    orders: str
    payments: str


def ascending(records: int) -> Logs:
    """The records of both topics, in log order: ids ascend, except for a disorder of up to `K`."""
    draw = random.Random(7)
    orders = sorted(range(records), key=lambda at: at // ITEMS + draw.randrange(K))
    paid = sorted(range(records // ITEMS), key=lambda at: at + draw.randrange(K))
    return {
        "Orders": [
            {"id": number // ITEMS, "item": number % ITEMS, "price": draw.randrange(100), "ts": at}
            for at, number in enumerate(orders)
        ],
        "Payments": [
            {"id": number, "paid": draw.randrange(100), "ts": at * ITEMS + 200} for at, number in enumerate(paid)
        ],
    }


def scattered(records: int) -> Logs:
    """Records with ids in no order. The items of an order are within `K` instants, and its payment follows within
    `DELAY` after the last item."""
    draw, orders, payments = random.Random(7), list[dict[str, int]](), list[dict[str, int]]()
    for number in range(records // ITEMS):
        name, instants = draw.getrandbits(62), [number * ITEMS + draw.randrange(K) for _ in range(ITEMS)]
        orders += [
            {"id": name, "item": item, "price": draw.randrange(100), "ts": ts} for item, ts in enumerate(instants)
        ]
        ts = max(instants) + draw.randrange(DELAY)
        payments.append({"id": name, "paid": draw.randrange(100), "ts": ts})
    return {"Orders": sorted(orders, key=_instant), "Payments": sorted(payments, key=_instant)}


def _instant(record: dict[str, int]) -> int:
    return record["ts"]


KINDS = (
    Kind("ORDERED", ascending, f"CONSTRAINT ORDERED BY id WITHIN {K}", f"CONSTRAINT ORDERED BY id WITHIN {K}"),
    Kind(
        "CLUSTERED, REFERENCES", scattered, f"CONSTRAINT CLUSTERED BY id WITHIN {K}",
        f"CONSTRAINT id REFERENCES Orders (id) WITHIN {DELAY}",
    ),
)  # fmt: skip


def run(query: str, logs: Logs, orders: str, payments: str) -> Run:
    """Runs the query over the records. Both sources are read at the same pace."""
    session, count = LocalSession(partitions=2), len(logs["Orders"])
    session.execute(SOURCES.format(orders=orders, payments=payments))
    session.execute(f"CREATE STREAMED VIEW V AS {query}")
    began = time.perf_counter()
    for start in range(0, count, BATCH):
        for source, records in logs.items():
            share = BATCH * len(records) // count
            session.push(source, records[start * len(records) // count :][:share])
    seconds = time.perf_counter() - began
    operators = [
        operator for report in session.reports() for operator in report.operators
        if "V" in operator.queries and operator.operator not in ("Reorder", "RetractEnds", "StreamOutput")
    ]  # fmt: skip
    assert not session.dead_letters("Orders") and not session.dead_letters("Payments")
    rows, size = sum(operator.state_rows for operator in operators), sum(operator.state_bytes for operator in operators)
    return Run(list(session.changes("V")), rows, size, seconds)


def measure(kind: Kind, name: str, records: int) -> dict[str, object]:
    """Measures one query, with and without constraints; returns its figures."""
    logs = kind.logs(records)
    bound, free = run(QUERIES[name], logs, kind.orders, kind.payments), run(QUERIES[name], logs, "", "")
    if bound.changes != free.changes or not free.changes:
        raise AssertionError(f"{name}: the results differ")
    return {
        "constraint": kind.name, "query": name, "changes": len(free.changes),
        "rows": {"constrained": bound.rows, "unconstrained": free.rows},
        "bytes": {"constrained": bound.size, "unconstrained": free.size},
        "seconds": {"constrained": round(bound.seconds, 2), "unconstrained": round(free.seconds, 2)},
    }  # fmt: skip


def main() -> None:
    """Measures all queries, prints the figures, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    asked = parser.parse_args()
    figures = []
    for kind in KINDS:
        for name in QUERIES:
            figures.append(figure := measure(kind, name, asked.records))
            print(msgspec.json.encode(figure).decode(), flush=True)
    report = {"records": asked.records, "k": K, "delay": DELAY, "partitions": 2, "queries": figures}
    OUT.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


if __name__ == "__main__":
    main()
