"""The queries of the live shedding benchmark, with different weights, error bounds and deadlines."""

from dataclasses import dataclass

WINDOW_MS, GROUPS = 2_000, 4


@dataclass(frozen=True)
class Query:
    """Aggregates of bids by group and window, and the options of shedding."""

    name: str
    aggregates: str
    max_error: float
    deadline_s: float
    weight: float

    def statement(self, stream: str, prefix: str = "", max_error: float | None = None) -> str:
        """The query over a stream."""
        bound = max_error or self.max_error
        options = f"max_error = {bound:.9f}, deadline = '{self.deadline_s:g} s', weight = {self.weight:g}"
        return (
            f"CREATE QUERY {prefix}{self.name} WITH ({options}) AS SELECT STREAMED window_end, auction % {GROUPS} AS k,"
            f" {self.aggregates} FROM TUMBLE(TABLE {stream}, DESCRIPTOR(TS), {WINDOW_MS})"
            f" GROUP BY window_end, auction % {GROUPS} EMIT FINAL"
        )


_MANY = ", ".join(f"SUM({name}) AS s_{name}, AVG({name}) AS a_{name}" for name in ("price", "bidder", "auction"))
_MORE = ", ".join(
    f"SUM(price) FILTER (WHERE auction % 97 > {at}) AS s_{at}, AVG(price) FILTER (WHERE auction % 97 > {at}) AS a_{at}"
    for at in range(16)
)
QUERIES = (
    Query("volume", "COUNT(*) AS n", 0.05, 6.0, 20.0),
    Query("revenue", "COUNT(*) AS n, SUM(price) AS s_price", 0.1, 8.0, 2.0),
    Query("profile", f"COUNT(*) AS n, {_MANY}, {_MORE}", 0.2, 10.0, 1.0),
)
