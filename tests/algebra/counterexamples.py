"""Cases for which a law did not hold once; `make fuzz` adds to them."""

# ruff: noqa: E501

from __future__ import annotations

from case_check import Cutting
from cases import Case
from oracle import Advance, Record
from query_leaves import Source

__all__ = ["COUNTEREXAMPLES", "Advance", "Record", "Source"]

COUNTEREXAMPLES: list[tuple[Case, Cutting]] = [
    # the row of an aggregate over everything was there once for each batch before all sources had records
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=2, row={"k": 1, "n": 1}, deletion=False),
                        Record(ts=5, row={"k": 2, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.k, (SELECT MIN(2) FROM S2 AS y) AS m FROM S1 AS x",
            duck="SELECT x.k, (SELECT MIN(2) FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS y) AS m FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x",
            names=("k", "m"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=1, eager=True),
    ),
    # a constant compared with a column of one constant
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.k FROM S1 AS x WHERE 2 IN (SELECT 2 FROM S1 AS y WHERE y.n = x.k)",
            duck="SELECT x.k FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x WHERE 2 IN (SELECT 2 FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS y WHERE y.n = x.k)",
            names=("k",),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a constant compared with what Polars reduces to a constant
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.k FROM S1 AS x WHERE 1 > COALESCE(0, x.n)",
            duck="SELECT x.k FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x WHERE 1 > COALESCE(0, x.n)",
            names=("k",),
            output="streamed",
        ),
        Cutting(partitions=2, batch_records=2, eager=False),
    ),
    # one column in two equalities of a join
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=2, row={"k": 1, "n": 1}, deletion=False),
                        Record(ts=5, row={"k": 2, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.n AS c, y.n AS d FROM S1 AS x LEFT JOIN S2 AS y ON x.n = y.k AND COALESCE(x.k, x.n) = y.k",
            duck="SELECT x.n AS c, y.n AS d FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x LEFT JOIN (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS y ON x.n = y.k AND COALESCE(x.k, x.n) = y.k",
            names=("c", "d"),
            output="streamed",
        ),
        Cutting(partitions=3, batch_records=1, eager=False),
    ),
    # TS of a stream in a subquery was taken for that of a view around it
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=2, row={"k": 1, "n": 1}, deletion=False),
                        Record(ts=5, row={"k": 2, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=("CREATE STREAMED VIEW V AS SELECT k FROM S1 EXCEPT SELECT n FROM S2",),
            query="SELECT STREAMED v.k FROM V AS v WHERE 1 <= (SELECT COUNT(*) FROM (SELECT k FROM S2 WHERE TS < 3) AS y)",
            duck="SELECT v.k FROM (SELECT k FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) EXCEPT SELECT n FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to)) AS v WHERE 1 <= (SELECT COUNT(*) FROM (SELECT k FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) WHERE TS < 3) AS y)",
            names=("k",),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a constant condition went below an outer join (rule filter_through_join)
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=2, row={"k": 1, "n": 1}, deletion=False),
                        Record(ts=5, row={"k": 2, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.k, y.n FROM S1 AS x FULL JOIN S2 AS y ON x.k = y.k WHERE 2.0 < -1.25",
            duck="SELECT x.k, y.n FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x FULL JOIN (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS y ON x.k = y.k WHERE 2.0 < -1.25",
            names=("k", "n"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a constant in ON went to the kept side (rule residual_through_join)
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=2, row={"k": 1, "n": 1}, deletion=False),
                        Record(ts=5, row={"k": 2, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED x.k, y.n FROM S1 AS x LEFT JOIN S2 AS y ON 2 = 0",
            duck="SELECT x.k, y.n FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x LEFT JOIN (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS y ON 2 = 0",
            names=("k", "n"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a group by window_start of windows over a projection (rule bound_group)
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 1, "n": 2}, deletion=False),
                        Record(ts=3, row={"k": 0, "n": None}, deletion=False),
                        Record(ts=3, row={"k": 1, "n": 2}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED w.window_start AS c, COUNT(*) AS d FROM TUMBLE(TABLE (SELECT CAST(k AS BIGINT) AS t FROM S1), DESCRIPTOR(t), 2) AS w GROUP BY w.window_start",
            duck="SELECT k // 2 * 2 AS c, COUNT(*) AS d FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) GROUP BY k // 2 * 2",
            names=("c", "d"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
]
