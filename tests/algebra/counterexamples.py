"""Cases that once violated a law; `make fuzz` adds to them."""

# ruff: noqa: E501

from __future__ import annotations

import datetime
from decimal import Decimal

from tests.algebra.case_check import Cutting
from tests.algebra.cases import Case
from tests.algebra.query_leaves import Source
from tests.algebra.query_parts import Kept
from tests.algebra.query_tables import Table
from tests.support.oracle import Advance, Record

#: The names that occur in the cases that `make fuzz` writes.
__all__ = ["COUNTEREXAMPLES", "Advance", "Decimal", "Kept", "Record", "Source", "Table", "datetime"]

ONE = Source(
    number=1,
    columns=("k", "n"),
    nullable=("n",),
    keys=(),
    slack=12,
    events=(
        Record(ts=0, row={"k": 1, "n": 2}),
        Record(ts=3, row={"k": 0, "n": None}),
        Record(ts=3, row={"k": 1, "n": 2}),
    ),
)
TWO = Source(
    number=2,
    columns=("k", "n"),
    nullable=("n",),
    keys=(),
    slack=12,
    events=(Record(ts=2, row={"k": 1, "n": 1}), Record(ts=5, row={"k": 2, "n": 2})),
)
DECIMALS = Source(
    number=1,
    columns=("k", "m"),
    nullable=(),
    keys=(),
    slack=12,
    events=tuple(Record(ts=ts, row={"k": 0, "m": Decimal(m)}) for ts, m in ((1, "-1.50"), (2, "0.25"), (4, "3.00"))),
)

COUNTEREXAMPLES: list[tuple[Case, Cutting]] = [
    # before all sources had records, an aggregate without GROUP BY had its row once for each batch
    (
        Case(
            sources=(ONE, TWO),
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
            sources=(ONE,),
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
            sources=(ONE,),
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
            sources=(ONE, TWO),
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
            sources=(ONE, TWO),
            views=("CREATE STREAMED VIEW V AS SELECT k FROM S1 EXCEPT SELECT n FROM S2",),
            query="SELECT STREAMED v.k FROM V AS v WHERE 1 <= (SELECT COUNT(*) FROM (SELECT k FROM S2 WHERE TS < 3) AS y)",
            duck="SELECT v.k FROM (SELECT k FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) EXCEPT SELECT n FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to)) AS v WHERE 1 <= (SELECT COUNT(*) FROM (SELECT k FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) WHERE TS < 3) AS y)",
            names=("k",),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a constant condition was pushed below an outer join (rule filter_through_join)
    (
        Case(
            sources=(ONE, TWO),
            views=(),
            query="SELECT STREAMED x.k, y.n FROM S1 AS x FULL JOIN S2 AS y ON x.k = y.k WHERE 2.0 < -1.25",
            duck="SELECT x.k, y.n FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS x FULL JOIN (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS y ON x.k = y.k WHERE 2.0 < -1.25",
            names=("k", "n"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # a constant in ON was pushed to the preserved side (rule residual_through_join)
    (
        Case(
            sources=(ONE, TWO),
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
            sources=(ONE,),
            views=(),
            query="SELECT STREAMED w.window_start AS c, COUNT(*) AS d FROM TUMBLE(TABLE (SELECT CAST(k AS BIGINT) AS t FROM S1), DESCRIPTOR(t), 2) AS w GROUP BY w.window_start",
            duck="SELECT k // 2 * 2 AS c, COUNT(*) AS d FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) GROUP BY k // 2 * 2",
            names=("c", "d"),
            output="streamed",
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # on several targets, Rstream began on each with the first change of that target
    (
        Case(
            sources=(ONE,),
            views=("CREATE STREAMED VIEW Sync20 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0",),
            query="SELECT Rstream(x.c) FROM (SELECT a.k AS c FROM R[Sync20](S1) AS a GROUP BY CUBE (a.k)) AS x",
            duck="SELECT a.k AS c FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T - (@T + 2) % 2 AND @T - (@T + 2) % 2 < __to) AS a GROUP BY CUBE (a.k)",
            names=("c",),
            output="rstream",
            clock=(2, 0),
        ),
        Cutting(partitions=4, batch_records=1, eager=True),
    ),
    # synchronisation moved rows valid from BEGINNING on to the first point after it
    (
        Case(
            sources=(ONE,),
            views=(
                "CREATE STREAMED VIEW Sync30 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 3) = 0",
                "CREATE STREAMED VIEW V AS SELECT COUNT(*) AS c FROM S1",
            ),
            query="SELECT Rstream(x.c) FROM R[Sync30](V) AS x",
            duck="SELECT COUNT(*) AS c FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T - (@T + 3) % 3 AND @T - (@T + 3) % 3 < __to) AS a",
            names=("c",),
            output="rstream",
            clock=(3, 0),
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # QUALIFY by a name of the select list was refused
    (
        Case(
            sources=(ONE,),
            views=(),
            query="SELECT STREAMED a.k AS c, ROW_NUMBER() OVER (ORDER BY a.k, a.n NULLS LAST) AS d FROM S1 AS a QUALIFY d <= 2",
            duck="SELECT a.k AS c, ROW_NUMBER() OVER (ORDER BY a.k, a.n NULLS LAST) AS d FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS a QUALIFY d <= 2",
            names=("c", "d"),
        ),
        Cutting(partitions=2, batch_records=1, eager=True),
    ),
    # points of Rstream were not found where one side of a join consisted of constants
    (
        Case(
            sources=(ONE,),
            views=("CREATE STREAMED VIEW Sync21 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 1",),
            query="SELECT Rstream(a.k) FROM R[Sync21](S1) AS a WHERE 0 < (SELECT COUNT(*) FROM (VALUES (1)) AS v(c))",
            duck="SELECT a.k FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T - (@T + 1) % 2 AND @T - (@T + 1) % 2 < __to) AS a WHERE 0 < (SELECT COUNT(*) FROM (VALUES (1)) AS v(c))",
            names=("k",),
            output="rstream",
            clock=(2, 1),
        ),
        Cutting(partitions=2, batch_records=2, eager=True),
    ),
    # a constant that NULLIF compares with a column of equal values had one row
    (
        Case(
            sources=(ONE,),
            views=(),
            query="SELECT STREAMED NULLIF(0, COALESCE(a.n, 0)) AS c FROM (SELECT n FROM S1 WHERE n IS NULL OR k < 1) AS a, S1 AS b",
            duck="SELECT NULLIF(0, COALESCE(a.n, 0)) AS c FROM (SELECT n FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) WHERE n IS NULL OR k < 1) AS a, (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) AS b",
            names=("c",),
        ),
        Cutting(partitions=2, batch_records=None, eager=False),
    ),
    # the distance of a RANGE frame was taken in units of the last digit of a DECIMAL
    (
        Case(
            sources=(DECIMALS,),
            views=(),
            query="SELECT STREAMED a.m, COUNT(*) OVER (ORDER BY a.m RANGE BETWEEN CURRENT ROW AND 1.75 FOLLOWING) AS c FROM S1 AS a",
            duck="SELECT a.m, COUNT(*) OVER (ORDER BY a.m RANGE BETWEEN CURRENT ROW AND 1.75 FOLLOWING) AS c FROM (SELECT k, m, TS FROM H1 WHERE __from <= @T AND @T < __to) AS a",
            names=("m", "c"),
        ),
        Cutting(partitions=1, batch_records=1, eager=True),
    ),
    # TS of a view was not found in USING
    (
        Case(
            sources=(ONE, TWO),
            views=("CREATE STREAMED VIEW V AS SELECT k, COUNT(*) AS c FROM S1 GROUP BY k",),
            query="SELECT STREAMED x.k, y.c FROM S2 AS x ASOF LEFT JOIN V AS y USING (k, TS)",
            duck="SELECT x.k, y.c FROM (SELECT k, n, TS FROM H2 WHERE __from <= @T AND @T < __to) AS x LEFT JOIN LATERAL (SELECT * FROM (SELECT k, c, TS FROM V WHERE __at = @T) AS y WHERE x.k = y.k AND x.TS >= y.TS ORDER BY y.TS DESC LIMIT 1) AS y ON TRUE",
            names=("k", "c"),
            kept=(
                Kept(
                    "V",
                    "SELECT k, COUNT(*) AS c FROM (SELECT k, n, TS FROM H1 WHERE __from <= @T AND @T < __to) GROUP BY k",
                    ("k", "c"),
                    ("k",),
                ),
            ),
        ),
        Cutting(partitions=3, batch_records=2, eager=False),
    ),
    # the column that USING merges from columns of two types may be NULL where a side is padded
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n", "s"),
                    nullable=(),
                    keys=("k",),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 0, "n": 0, "s": "a"}, deletion=False),
                        Record(ts=0, row={"k": 0, "n": 0, "s": "a"}, deletion=False),
                    ),
                ),
            ),
            views=(),
            query="SELECT STREAMED a25.c24 FROM ((SELECT a22.c21 AS c24 FROM ((SELECT a19.c18 AS c21 FROM (SELECT a16.c11 AS c18 FROM (SELECT j9 AS j9, c10 AS c10, c11 AS c11 FROM (SELECT a5.n AS j9, a5.k AS c10 FROM S1 AS a5) AS a7 RIGHT JOIN (SELECT a6.v1 AS j9, a6.v1 AS c11 FROM (SELECT * FROM (VALUES (0, 0, 0), (NULL, NULL, NULL)) AS t4(v1, v2, v3)) AS a6) AS a8 USING (j9)) AS a16 WHERE a16.j9 NOT IN (SELECT a17.c15 FROM (WITH w12 AS (SELECT k, n, s, TS FROM S1 AS x) SELECT (a13.k + a13.k) AS c15 FROM w12 AS a13 JOIN w12 AS a14 ON a13.k = a14.k) AS a17)) AS a19) UNION ALL (SELECT a20.k AS c21 FROM S1 AS a20)) AS a22) UNION (SELECT a23.k AS c24 FROM Tab AS a23)) AS a25",
            duck="SELECT a25.c24 FROM ((SELECT a22.c21 AS c24 FROM ((SELECT a19.c18 AS c21 FROM (SELECT a16.c11 AS c18 FROM (SELECT j9 AS j9, c10 AS c10, c11 AS c11 FROM (SELECT a5.n AS j9, a5.k AS c10 FROM (SELECT k, n, s, TS FROM H1 WHERE __from <= @T AND @T < __to) AS a5) AS a7 RIGHT JOIN (SELECT a6.v1 AS j9, a6.v1 AS c11 FROM (SELECT * FROM (VALUES (0, 0, 0), (NULL, NULL, NULL)) AS t4(v1, v2, v3)) AS a6) AS a8 USING (j9)) AS a16 WHERE a16.j9 NOT IN (SELECT a17.c15 FROM (WITH w12 AS (SELECT k, n, s, TS FROM H1 WHERE __from <= @T AND @T < __to) SELECT (a13.k + a13.k) AS c15 FROM w12 AS a13 JOIN w12 AS a14 ON a13.k = a14.k) AS a17)) AS a19) UNION ALL (SELECT a20.k AS c21 FROM (SELECT k, n, s, TS FROM H1 WHERE __from <= @T AND @T < __to) AS a20)) AS a22) UNION (SELECT a23.k AS c24 FROM (SELECT k, n FROM HTab WHERE __from <= @T AND @T < __to) AS a23)) AS a25",
            names=("c24",),
            output="streamed",
            kept=(),
            clock=None,
            tables=(
                Table(
                    columns=("k", "n"),
                    nullable=(),
                    keys=("k", "n"),
                    statements=((0, "INSERT INTO Tab (k) VALUES (0)"),),
                ),
            ),
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
    # the oracle stored rounded doubles of a stream, and looked up unrounded ones
    (
        Case(
            sources=(
                Source(
                    number=1,
                    columns=("k", "n"),
                    nullable=(),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 0, "n": 0}, deletion=False),
                        Record(ts=0, row={"k": 0, "n": 0}, deletion=False),
                    ),
                ),
                Source(
                    number=2,
                    columns=("k", "n", "d"),
                    nullable=("n",),
                    keys=(),
                    slack=12,
                    events=(
                        Record(ts=0, row={"k": 0, "n": 0, "d": 0.3333333333333333}, deletion=False),
                        Record(ts=0, row={"k": 0, "n": None, "d": 0.1}, deletion=False),
                        Record(ts=0, row={"k": 0, "n": 0, "d": 0.1}, deletion=False),
                    ),
                ),
            ),
            views=("CREATE STREAMED VIEW V3 AS SELECT Istream(v.c2) FROM (SELECT a1.d AS c2 FROM S2 AS a1) AS v",),
            query="SELECT STREAMED a8.c6, a8.c7 FROM (SELECT a4.c2 AS c6, (SELECT COUNT(*) FROM S2 AS a5 WHERE a5.d = a4.c2) AS c7 FROM V3 AS a4) AS a8",
            duck="SELECT a8.c6, a8.c7 FROM (SELECT a4.c2 AS c6, (SELECT COUNT(*) FROM (SELECT k, n, d, TS FROM H2 WHERE __from <= @T AND @T < __to) AS a5 WHERE a5.d = a4.c2) AS c7 FROM (SELECT c2, TS FROM V3 WHERE __at = @T) AS a4) AS a8",
            names=("c6", "c7"),
            output="streamed",
            kept=(
                Kept(
                    name="V3",
                    duck="(SELECT a1.d AS c2 FROM (SELECT k, n, d, TS FROM H2 WHERE __from <= @T AND @T < __to) AS a1)",
                    columns=("c2",),
                    keys=(),
                    output="istream",
                ),
            ),
            clock=None,
            tables=(),
        ),
        Cutting(partitions=1, batch_records=None, eager=False),
    ),
]
