"""The queries of a run: each in our SQL, and in DuckDB's SQL over the records accepted up to an instant."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = """
    REGISTER SOURCE {p}main (k VARCHAR NOT NULL, v INT, d INT) FROM "{main}" SLACK 5 IDLE NEVER;
    REGISTER SOURCE {p}side (k VARCHAR NOT NULL, v INT, d INT) FROM "{side}" SLACK 5 IDLE NEVER;
    REGISTER SOURCE {p}quiet (k VARCHAR NOT NULL, v INT, d INT) FROM "{quiet}" SLACK 5 IDLE AFTER 1 SECONDS;
    CREATE STREAM {p}keyed OVER {p}main KEY k; CREATE STREAM {p}all OVER {p}main KEY NULL;
    CREATE STREAM {p}other OVER {p}side KEY k; CREATE STREAM {p}rare OVER {p}quiet KEY NULL;
"""
#: The relations of the streams at an instant, over the tables of accepted records.
_LAST = """SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC, part DESC, "offset" DESC) AS nth
    FROM {table} WHERE ts BETWEEN {{start}} AND {{at}}) WHERE nth = 1 AND op = '+'"""
RELATIONS = f"""WITH
    keyed AS ({_LAST.format(table="main")}), other AS ({_LAST.format(table="side")}),
    everything AS (SELECT * FROM main WHERE ts BETWEEN {{start}} AND {{at}} AND op = '+'),
    rare AS (SELECT * FROM quiet WHERE ts BETWEEN {{start}} AND {{at}} AND op = '+')
"""


@dataclass(frozen=True)
class Shape:
    """A query with a constant `{c}`; `{p}` is the prefix of our names. `logged` says that its log depends on the source
    logs alone, not on decisions about idle partitions, so that another run must repeat it."""

    name: str
    ours: str
    duck: str
    options: str = ""
    logged: bool = True


SHAPES = (
    Shape("filter", "SELECT k, v FROM R({p}keyed) WHERE v > {c}", "SELECT k, v FROM keyed WHERE v > {c}"),
    Shape(
        "faults",
        "SELECT k, v / d AS q FROM R({p}keyed) WHERE v < {c}",
        "SELECT k, v // d AS q FROM keyed WHERE v < {c} AND d <> 0",
    ),
    Shape("flat", "SELECT k, v FROM R({p}all) WHERE v < {c}", "SELECT k, v FROM everything WHERE v < {c}"),
    Shape(
        "sums",
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM R({p}all) WHERE v > {c} GROUP BY k",
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM everything WHERE v > {c} GROUP BY k",
    ),
    Shape(
        "means",
        "SELECT k, SUM(v) AS s, AVG(d) AS m FROM R({p}keyed) WHERE v > {c} GROUP BY k",
        "SELECT k, SUM(v) AS s, AVG(d) AS m FROM keyed WHERE v > {c} GROUP BY k",
        options="WITH (format = avro) ",
    ),
    Shape(
        "window",
        "SELECT k, MAX(v) AS m FROM {p}all [RANGE 50] WHERE v < {c} GROUP BY k",
        "SELECT k, MAX(v) AS m FROM everything WHERE v < {c} AND ts >= {at} - 50 GROUP BY k",
    ),
    Shape(
        "join",
        "SELECT a.k, a.v, b.v AS w FROM R({p}keyed) a JOIN R({p}other) b ON a.k = b.k WHERE a.v > {c}",
        "SELECT a.k, a.v, b.v AS w FROM keyed a JOIN other b ON a.k = b.k WHERE a.v > {c}",
    ),
    Shape(
        "outer",
        "SELECT a.k, a.v, b.v AS w FROM R({p}keyed) a LEFT JOIN R({p}other) b ON a.k = b.k AND b.v > {c}",
        "SELECT a.k, a.v, b.v AS w FROM keyed a LEFT JOIN other b ON a.k = b.k AND b.v > {c}",
    ),
    Shape(
        "distinct",
        "SELECT DISTINCT v FROM R({p}keyed) WHERE v > {c}",
        "SELECT DISTINCT v FROM keyed WHERE v > {c}",
    ),
    Shape(
        "except",
        "SELECT k FROM R({p}keyed) WHERE v > {c} EXCEPT SELECT k FROM R({p}other) WHERE v > {c}",
        "SELECT k FROM keyed WHERE v > {c} EXCEPT SELECT k FROM other WHERE v > {c}",
    ),
    Shape(
        "top",
        "SELECT k, COUNT(*) AS n FROM R({p}all) WHERE v > {c} GROUP BY k ORDER BY n DESC, k LIMIT 5",
        "SELECT k, COUNT(*) AS n FROM everything WHERE v > {c} GROUP BY k ORDER BY n DESC, k LIMIT 5",
    ),
    Shape(
        "tumbling",
        "SELECT window_end, COUNT(*) AS n, SUM(v) AS s FROM TUMBLE(TABLE {p}all, DESCRIPTOR(TS), 100) WHERE v > {c} "
        "GROUP BY window_end",
        "SELECT (ts // 100 + 1) * 100 AS window_end, COUNT(*) AS n, SUM(v) AS s FROM everything WHERE v > {c} "
        "GROUP BY 1",
    ),
    Shape(
        "silent",
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM R({p}rare) WHERE v > {c} GROUP BY k",
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM rare WHERE v > {c} GROUP BY k",
        logged=False,
    ),
)
BY_NAME = {shape.name: shape for shape in SHAPES}


@dataclass(frozen=True)
class Text:
    """The text of a query: a shape with its constant."""

    shape: str
    constant: int

    def select(self, prefix: str) -> str:
        """The SELECT in our SQL."""
        return BY_NAME[self.shape].ours.format(p=prefix, c=self.constant)

    def create(self, prefix: str, name: str, start: int | str | None = None, *, replacing: bool = False) -> str:
        """The statement that creates or replaces the query."""
        options = BY_NAME[self.shape].options
        if start is not None:
            asked = f"start = {start!r}"
            options = options.replace("(", f"({asked}, ") if options else f"WITH ({asked}) "
        verb = "CREATE OR REPLACE" if replacing else "CREATE"
        return f"{verb} QUERY {prefix}{name} {options}AS {self.select(prefix)}"

    def duck(self, at: int, start: int | None) -> str:
        """DuckDB's query for the relation at an instant, over records from the start on."""
        whole = RELATIONS + BY_NAME[self.shape].duck
        return whole.format(at=at, start=-(2**62) if start is None else start, c=self.constant)
