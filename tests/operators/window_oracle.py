"""DuckDB's values of window functions over the copies present at every instant."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from operators.core.sort_key import SortKey
from operators.ranking.over import Over
from operators.ranking.window_call import WindowCall
from tests.operators.window_histories import END, changes, copies_at, relation, same_log
from tests.support import duck_engine

DUCKDB = duck_engine.connection()
INT, DOUBLE = pa.int64(), pa.float64()
#: Functions of peers with their types, and functions with choices of parameters that break ties by arrival.
OF_PEERS = {"rank": INT, "dense_rank": INT, "percent_rank": DOUBLE, "cume_dist": DOUBLE}
OF_TIES = {"row_number": [()], "ntile": [(1,), (3,)], "lag": [(), (2,), (1, 7)], "lead": [(), (0,), (2, 9)]}
ORDERS = st.sampled_from(
    [(SortKey("v"),), (SortKey("v", True),), (SortKey("v", False, True),), (SortKey("v", True, False),)]
)


def window_calls(listed, partition) -> tuple[WindowCall, ...]:
    return tuple(
        WindowCall(f"c{at}", name, arguments, kind, partition, order, frame, start, end, given, *nulls)
        for at, (name, arguments, kind, order, frame, start, end, given, *nulls) in enumerate(listed)
    )


def bound(end, unbounded: str) -> str:
    if end is None:
        return f"UNBOUNDED {unbounded}"
    return f"{-end} PRECEDING" if end < 0 else f"{end} FOLLOWING" if end else "CURRENT ROW"


def sql(call: WindowCall) -> str:
    order = [
        f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'LAST' if key.nulls_last else 'FIRST'}"
        for key in call.order
    ]
    ties = [] if call.function in OF_PEERS or call.frame == "range" else ["since", "arrival"]
    parts = ", ".join(["instant", *call.partition])
    frame = f"{call.frame} BETWEEN {bound(call.start, 'PRECEDING')} AND {bound(call.end, 'FOLLOWING')}"
    framed = "" if call.function in OF_TIES or call.function in OF_PEERS else frame
    arguments = ", ".join([*call.arguments, *map(str, call.parameters)]) + " IGNORE NULLS" * call.ignore_nulls
    window = f"PARTITION BY {parts} ORDER BY {', '.join(order + ties)} {framed}"
    return f"{call.function}({arguments}) OVER ({window}) AS {call.name}"


def expected(calls, frame: pl.DataFrame) -> dict[int, Counter]:
    """The relation at every instant, by one query over the copies of all instants."""
    rows = [(at, *row, since, arrival) for at in range(END) for row, since, arrival in copies_at(frame, at)]
    types = {"instant": pl.Int64, "k": pl.String, "v": pl.Int64, "since": pl.Int64, "arrival": pl.Int64}
    DUCKDB.register("copies", pl.DataFrame(rows, schema=types, orient="row").to_arrow())
    values = DUCKDB.execute(f"SELECT instant, k, v, {', '.join(map(sql, calls))} FROM copies").fetchall()
    snapshots: dict[int, Counter] = {at: Counter() for at in range(END)}
    for at, *row in values:
        snapshots[at][rounded(row)] += 1
    return snapshots


def rounded(row) -> tuple:
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


def assert_duckdbs_values(calls, rows, cuts, seed) -> pl.DataFrame:
    """Asserts the log law, and that the values at every instant are DuckDB's; returns the output with cuts."""
    delta = changes(rows)
    windowed = same_log(Over(calls), delta, cuts, seed)
    snapshots = expected(calls, delta.frame)
    for at in range(END):
        bag = Counter()
        for row, n in relation(windowed, at).items():
            bag[rounded(row)] += n
        assert bag == snapshots[at]
    return windowed
