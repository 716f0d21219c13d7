"""MATCH_RECOGNIZE at every instant, compared with a matcher that tries all matches in the order of preference, with
rows that come late and are removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support.strategies import examples

END = 8
SOURCES = """REGISTER SOURCE Prices (p TEXT, t INT, v INT) FROM t; CREATE STREAM P OVER Prices KEY (p, t);
CREATE STREAM A OVER Prices KEY NULL;"""
Row = dict[str, Any]
#: The rows of a match, each with its variable.
Matched = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Case:
    """A pattern as text and as a tree, with the conditions of its variables and its measures as SQL and as Python."""

    pattern: str
    tree: Any
    define: str
    holds: dict[str, Callable[[list[Row], int, Matched], bool]]
    measures: str
    shown: Callable[[list[Row], Matched], tuple]
    skip: str = ""
    after: Callable[[Matched], int] = lambda match: match[-1][0] + 1
    within: int | None = None


def ways(tree: Any, case: Case, rows: list[Row], at: int, matched: Matched) -> Iterator[Matched]:
    """All matches of a tree from a row on, the preferred one first."""
    if isinstance(tree, str):
        if tree == "^" or tree == "$":
            yield from [matched] if at == (0 if tree == "^" else len(rows)) else []
        elif at < len(rows) and (tree not in case.holds or case.holds[tree](rows, at, matched)):
            first = matched[0][0] if matched else at
            if case.within is None or rows[at]["t"] - rows[first]["t"] <= case.within:
                yield (*matched, (at, tree))
        return
    kind, *parts = tree
    if kind == "or":
        for part in parts:
            yield from ways(part, case, rows, at, matched)
    elif kind == "seq":
        yield from _one_after_the_other(parts, case, rows, at, matched)
    else:
        part, least, most, greedy = parts
        yield from _repeated((part, least, most, greedy), case, rows, at, matched)


def _one_after_the_other(parts: list, case: Case, rows: list[Row], at: int, matched: Matched) -> Iterator[Matched]:
    if not parts:
        yield matched
        return
    for way in ways(parts[0], case, rows, at, matched):
        yield from _one_after_the_other(parts[1:], case, rows, at + len(way) - len(matched), way)


def _repeated(repeat: tuple, case: Case, rows: list[Row], at: int, matched: Matched) -> Iterator[Matched]:
    part, least, most, greedy = repeat

    def again() -> Iterator[Matched]:
        fewer = (part, max(least - 1, 0), None if most is None else most - 1, greedy)
        for way in ways(part, case, rows, at, matched) if most != 0 else ():
            yield from _repeated(fewer, case, rows, at + len(way) - len(matched), way)

    if least > 0:
        yield from again()
    elif greedy:
        yield from again()
        yield matched
    else:
        yield matched
        yield from again()


def answer(case: Case, rows: list[Row]) -> list[Matched]:
    """The matches in the rows of a partition, in their order."""
    found, at = [], 0
    while at < len(rows):
        match = next(ways(case.tree, case, rows, at, ()), None)
        if match is None:
            at += 1
            continue
        found.append(match)
        at = max(case.after(match), at + 1)
    return found


def values(rows: list[Row], match: Matched, variable: str | None = None) -> list[int]:
    """The values of the rows of a variable (None: of all rows of the match), without NULLs."""
    return [rows[at]["v"] for at, name in match if variable in (None, name) and rows[at]["v"] is not None]


def _v(rows: list[Row], at: int) -> int | None:
    return rows[at]["v"] if 0 <= at < len(rows) else None


def _less(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a < b


def _last(rows: list[Row], match: Matched, variable: str, offset: int = 0) -> int | None:
    listed = [rows[at]["v"] for at, name in match if name == variable]
    return listed[-1 - offset] if offset < len(listed) else None


def _first(rows: list[Row], match: Matched, variable: str) -> int | None:
    return next((rows[at]["v"] for at, name in match if name == variable), None)


def down(rows: list[Row], at: int, matched: Matched) -> bool:
    return _less(_v(rows, at), _v(rows, at - 1))


def up(rows: list[Row], at: int, matched: Matched) -> bool:
    return _less(_v(rows, at - 1), _v(rows, at))


def some(rows: list[int]) -> int | None:
    return sum(rows) if rows else None


PLUS, STAR = (1, None, True), (0, None, True)
CASES = [
    Case(
        "A DOWN+ UP+", ("seq", "A", ("rep", "DOWN", *PLUS), ("rep", "UP", *PLUS)),
        "DOWN AS v < PREV(v), UP AS v > PREV(v)", {"DOWN": down, "UP": up},
        "FIRST(A.v) AS a, LAST(DOWN.v) AS b, UP.v AS c, COUNT(*) AS n, SUM(DOWN.v) AS s, t AS u",
        lambda rows, m: (_first(rows, m, "A"), _last(rows, m, "DOWN"), _last(rows, m, "UP"), len(m),
                         some(values(rows, m, "DOWN")), rows[m[-1][0]]["t"]),
    ),
    Case(
        "(A | B C){1,2}? D", ("seq", ("rep", ("or", "A", ("seq", "B", "C")), 1, 2, False), "D"),
        "A AS v = 0, B AS v >= 1, C AS v < 2, D AS D.v > 1 OR v IS NULL",
        {"A": lambda r, i, m: r[i]["v"] == 0, "B": lambda r, i, m: _less(0, r[i]["v"]),
         "C": lambda r, i, m: _less(r[i]["v"], 2), "D": lambda r, i, m: r[i]["v"] is None or r[i]["v"] > 1},
        "MATCH_NUMBER() AS k, CLASSIFIER() AS c, MIN(v) AS low, COUNT(B.v) AS n",
        lambda rows, m: (None, m[-1][1], min(values(rows, m), default=None), len(values(rows, m, "B"))),
        "AFTER MATCH SKIP TO NEXT ROW", lambda match: match[0][0] + 1,
    ),
    Case(  # conditions on the rows matched so far
        "S G* E", ("seq", "S", ("rep", "G", *STAR), "E"),
        "G AS G.v >= S.v AND SUM(G.v) < 6, E AS E.v < LAST(G.v, 1) + 1",
        {"G": lambda r, i, m: r[i]["v"] is not None and _less((_last(r, m, "S") or 0) - 1, r[i]["v"])
            and _last(r, m, "S") is not None and sum(values(r, m, "G")) + r[i]["v"] < 6,
         "E": lambda r, i, m: _last(r, m, "G", 1) is not None and _less(r[i]["v"], _last(r, m, "G", 1) + 1)},
        "S.v AS a, AVG(G.v) AS g, E.v AS e",
        lambda rows, m: (_last(rows, m, "S"), (lambda g: sum(g) / len(g) if g else None)(values(rows, m, "G")),
                         _last(rows, m, "E")),
        "AFTER MATCH SKIP TO LAST E", lambda match: match[-1][0],
    ),
    Case(
        "A B* C", ("seq", "A", ("rep", "B", *STAR), "C"), "B AS NEXT(v) IS NOT NULL, C AS v <> PREV(v, 2)",
        {"B": lambda r, i, m: _v(r, i + 1) is not None,
         "C": lambda r, i, m: None not in (_v(r, i), _v(r, i - 2)) and _v(r, i) != _v(r, i - 2)},
        "COUNT(B.t) AS n, MAX(B.v + 1) AS h",
        lambda rows, m: (sum(name == "B" for _, name in m), max([v + 1 for v in values(rows, m, "B")], default=None)),
        within=3,
    ),
    Case(
        "^ A+ B $", ("seq", "^", ("rep", "A", *PLUS), "B", "$"), "A AS v < 3",
        {"A": lambda r, i, m: _less(r[i]["v"], 3)},
        "FIRST(v, 1) AS second, SUM(t) AS s",
        lambda rows, m: (rows[m[1][0]]["v"], sum(rows[at]["t"] for at, _ in m)),
    ),
]  # fmt: skip
PRICES = st.lists(
    st.fixed_dictionaries(
        {
            "p": st.sampled_from("xy"),
            "t": st.integers(0, 7),
            "v": st.sampled_from([None, 0, 1, 2, 3]),
            "ts": st.integers(0, END - 1),
            "op": st.sampled_from(["+", "+", "+", "-"]),
        }
    ),
    max_size=24,
)
CUT = st.sampled_from([(1, None), (1, 1), (3, 2)])


def text(case: Case, rows: str, relation: str = "P") -> str:
    within = "" if case.within is None else f" WITHIN {case.within}"
    return (
        f"SELECT * FROM {relation} MATCH_RECOGNIZE (PARTITION BY p ORDER BY t MEASURES {case.measures} {rows} "
        f"{case.skip} PATTERN ({case.pattern}){within} DEFINE {case.define})"
    )


def partitions(records: list[Row], at: int) -> dict[str, list[Row]]:
    """The rows that are present at an instant, in the order of t."""
    last = {(record["p"], record["t"]): record for record in records if record["ts"] <= at}
    kept = sorted((row for row in last.values() if row["op"] == "+"), key=lambda row: row["t"])
    return {p: [row for row in kept if row["p"] == p] for p in "xy"}


def expected(case: Case, records: list[Row], at: int, *, every: bool) -> Counter:
    found: Counter = Counter()
    numbered = case.measures.startswith("MATCH_NUMBER")
    for p, rows in partitions(records, at).items():
        for number, match in enumerate(answer(case, rows), 1):
            ends = range(1, len(match) + 1) if every else [len(match)]
            for end in ends:
                measures = case.shown(rows, match[:end])
                measures = (number, *measures[1:]) if numbered else measures
                row = rows[match[end - 1][0]]
                found[((p, row["t"], row["v"]) if every else (p,)) + measures] += 1
    return found


def session_of(query: str, records: list[Row], cut: tuple[int, int | None]) -> LocalSession:
    session = LocalSession(*cut)
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    session.push("Prices", sorted(records, key=lambda record: record["ts"]))
    session.advance(END)
    return session


@settings(max_examples=examples(80))
@given(st.sampled_from(CASES), PRICES, CUT)
def test_one_row_per_match_at_every_instant(case: Case, records: list[Row], cut) -> None:
    session = session_of(text(case, "ONE ROW PER MATCH"), records, cut)
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == expected(case, sorted(records, key=lambda r: r["ts"]), at, every=False), f"at {at}"


#: Cases for ALL ROWS PER MATCH, where measures are running: at each row they are those of the match up to that row.
RUNNING = [case for case in CASES if "FIRST(v, 1)" not in case.measures]


@settings(max_examples=examples(60))
@given(st.sampled_from(RUNNING), PRICES, CUT)
def test_all_rows_per_match_at_every_instant(case: Case, records: list[Row], cut) -> None:
    query = text(case, "ALL ROWS PER MATCH").replace(", t AS u", ", t + 0 AS u")
    session = session_of(query, records, cut)
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == expected(case, sorted(records, key=lambda r: r["ts"]), at, every=True), f"at {at}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pattern)
def test_each_case_matches_something(case: Case) -> None:
    values = [2, 1, 0, 1, 3, 0, 2, 3] if not case.pattern.startswith("^") else [2, 1, 0, 1, 2, 0, 2, 3]
    records = [{"p": "x", "t": t, "v": v, "ts": t, "op": "+"} for t, v in enumerate(values)]
    found = expected(case, records, END, every=False)
    session = session_of(text(case, ""), records, (1, None))
    assert found and Counter(tuple(row.values()) for row in session.relation("V", at=END - 1)) == found


PATTERN = "SELECT * FROM P MATCH_RECOGNIZE (PARTITION BY p {}) AS m"
REFUSED = {
    "ORDER BY t MEASURES A.v AS a PATTERN (A*)": "PATTERN can match an empty sequence of rows",
    "MEASURES A.v AS a PATTERN (A)": "MATCH_RECOGNIZE needs ORDER BY",
    "ORDER BY t MEASURES A.v AS a PATTERN (A B DEFINE B AS v > 1": "",
    "ORDER BY t MEASURES A.v AS a PATTERN (A) DEFINE X AS v > 1": '"X" is not a variable of PATTERN',
    "ORDER BY t MEASURES A.v AS a PATTERN (A) DEFINE A AS v > 1, a AS v < 1": 'variable "A" is defined twice',
    "ORDER BY t MEASURES A.v AS a PATTERN (A {3,1})": "an upper bound of 0 or below its lower bound",
    "ORDER BY t MEASURES A.v AS a PATTERN ((A?)+)": "PATTERN repeats a part that can match an empty",
    "ORDER BY t MEASURES A.v AS a PATTERN (A{1,99999})": "a bound of a repetition in PATTERN exceeds 2,000",
    "ORDER BY t MEASURES A.v AS a PATTERN ((A{1,1000}){1,1000})": "PATTERN is too long",
    f"ORDER BY t MEASURES A.v AS a PATTERN ({'(' * 60}A{')' * 60})": "the statement is nested 62 levels deep",
    "ORDER BY t MEASURES A.v AS a PATTERN (PERMUTE(A, PERMUTE(B, C)))": "PERMUTE inside PERMUTE",
    "ORDER BY t MEASURES A.v AS a PATTERN (PERMUTE(A, B, C, D, E, F))": "PERMUTE has 6 parts, but at most 5 are",
    "ORDER BY t MEASURES A.v AS a PATTERN (A+++)": 'unexpected "+" in PATTERN',
    "ORDER BY t MEASURES SUM(A.v + m.v) AS a PATTERN (A B)": "belong to different variables",
    "ORDER BY t MEASURES A.v AS a PATTERN (A B) DEFINE B AS v > (SELECT MAX(v) FROM A)": "",
    "ORDER BY t MEASURES A.v, A.t AS u PATTERN (A)": "expected a measure with a name",
    "ORDER BY t MEASURES PREV(v) AS a PATTERN (A)": "PREV can only be used in DEFINE",
    "ORDER BY t MEASURES SUM(A.v + B.v) AS a PATTERN (A B)": "belong to different variables",
    "ORDER BY t MEASURES COUNT(DISTINCT A.v) AS a PATTERN (A B)": "DISTINCT, ORDER BY and FILTER",
    "ORDER BY t MEASURES A.v AS p PATTERN (A B)": 'MATCH_RECOGNIZE has two columns "p"',
    "ORDER BY t MEASURES A.v AS a PATTERN (A B) WITHIN INTERVAL '1' HOUR": "WITHIN needs an interval for a TIMESTAMP",
    "ORDER BY t MEASURES A.v AS a AFTER MATCH SKIP TO LAST X PATTERN (A B)": '"X" is not a variable',
    "ORDER BY t MEASURES A.v AS a PATTERN (A) DEFINE A AS w > 1": 'column "w" not found',
    "ORDER BY t MEASURES FINAL A.v AS a ALL ROWS PER MATCH PATTERN (A)": "FINAL with ALL ROWS PER MATCH",
}


@pytest.mark.parametrize("clauses", REFUSED)
def test_refused_patterns_have_the_reason(clauses: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError) as raised:
        session.execute(f"CREATE STREAMED VIEW V AS {PATTERN.format(clauses)}")
    assert REFUSED[clauses] in str(raised.value)


def rows_of(clauses: str, values: list[int | None], relation: str = "P") -> list[tuple]:
    """The matches in one partition with these values in order of t."""
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT * FROM {relation} MATCH_RECOGNIZE ({clauses})")
    records = [{"p": "x", "t": t, "v": v, "ts": 1 + t % 3, "op": "+"} for t, v in enumerate(values)]
    session.push("Prices", sorted(records, key=lambda record: record["ts"]))
    session.advance(END)
    return sorted(tuple(row.values()) for row in session.relation("V"))


def test_names_of_variables_and_words_of_the_clause() -> None:
    quoted = 'ORDER BY t MEASURES "up".v AS u, up.v AS w PATTERN ("up" UP) DEFINE "up" AS "up".v = 1, UP AS up.v = 2'
    assert rows_of(quoted, [0, 1, 2]) == [(1, 2)]
    words = "ORDER BY t MEASURES final.v AS final, last.v AS r AFTER MATCH SKIP TO LAST PATTERN (FINAL LAST) "
    assert rows_of(words + "DEFINE LAST AS v > PREV(v)", [0, 1, 2]) == [(0, 1), (1, 2)]
    comments = "ORDER BY t MEASURES COUNT(*) AS n PATTERN (A /* the first */ B -- and others\n C)"
    assert rows_of(comments, [0, 1, 2]) == [(3,)]
    twice = "PARTITION BY p, p ORDER BY t MEASURES RUNNING COUNT(*) AS n ALL ROWS PER MATCH PATTERN (A B)"
    assert [row[-1] for row in rows_of(twice, [5, 6])] == [1, 2]


def test_a_search_over_single_rows_is_never_given_up() -> None:
    """Partial matches that were tried are not tried again, with and without WITHIN."""
    for within in ("", " WITHIN 1000"):
        clauses = f"ORDER BY t MEASURES COUNT(*) AS n PATTERN ((X | Y)+ Z){within} DEFINE Z AS v < 0"
        assert rows_of(clauses, [1] * 40) == [] and rows_of(clauses, [*[1] * 40, -1]) == [(41,)]


def test_a_sum_outside_its_type_is_a_fault_or_does_not_hold() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE T (t INT, v BIGINT) FROM t; CREATE STREAM S OVER T KEY t;"
        "CREATE STREAMED VIEW V AS SELECT s FROM S MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES SUM(v) AS s PATTERN (A B)) AS m;"
        "CREATE STREAMED VIEW W AS SELECT n FROM S MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B+) DEFINE B AS SUM(v) > 0) AS m"
    )
    session.push("T", [{"t": t, "v": 2**62, "ts": 1} for t in range(3)])
    session.advance(9)
    assert session.relation("V") == [] and session.relation("W") == []
    assert '"sum" is outside the range of its type' in session.dead_letters("T")[0]["reason"]


def test_a_sum_of_long_decimals_is_exact_or_outside_its_type() -> None:
    """Sums of up to 38 digits are exact in DEFINE and MEASURES. Beyond 38 digits a sum in MEASURES is a fault, and a
    condition with it in DEFINE is not true."""
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE T (t INT, v DECIMAL(38, 1)) FROM t; CREATE STREAM S OVER T KEY t;"
        "CREATE STREAMED VIEW V AS SELECT s, m FROM S MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES SUM(v) AS s, AVG(v) AS m PATTERN (A B)) AS m;"
        "CREATE STREAMED VIEW W AS SELECT n, l FROM S MATCH_RECOGNIZE (ORDER BY t "
        "MEASURES COUNT(*) AS n, LAST(B.v) AS l PATTERN (A B+) DEFINE B AS SUM(v) > 0 AND MIN(v) <= LAST(B.v)) AS m"
    )
    half, twice = Decimal("4" * 37 + ".4"), Decimal("8" * 37 + ".8")
    session.push("T", [{"t": t, "v": str(half), "ts": 1} for t in range(5)])
    session.advance(9)
    assert session.relation("V") == [{"s": twice, "m": pytest.approx(float(half))}] * 2
    assert session.relation("W") == [{"n": 2, "l": half}] * 2
    session.push("T", [{"t": t, "v": "9" * 37 + ".9", "ts": 10} for t in range(2)])
    session.advance(19)
    assert session.relation("V") == [{"s": twice, "m": pytest.approx(float(half))}]
    assert '"sum" is outside the range of its type' in session.dead_letters("T")[0]["reason"]
    assert session.relation("W") == [{"n": 2, "l": half}]


@pytest.mark.parametrize("batch", [1, None])
def test_conditions_look_at_times_up_to_the_year_9999(batch) -> None:
    session = LocalSession(batch_records=batch)
    session.execute(
        "REGISTER SOURCE T (t INT, at TIMESTAMP) FROM t; CREATE STREAM S OVER T KEY t;"
        "CREATE STREAMED VIEW V AS SELECT n, EXTRACT(YEAR FROM top) AS y "
        "FROM (SELECT t, at + INTERVAL '7973' YEAR AS at FROM S) MATCH_RECOGNIZE (ORDER BY t "
        "MEASURES COUNT(*) AS n, MAX(at) AS top PATTERN (A B+) "
        "DEFINE B AS B.at > LAST(A.at) AND MAX(at) = B.at AND FIRST(at) < B.at) AS m"
    )
    times = ["2024-01-01 10:00:00", "2025-01-01 10:00:00", "2026-01-01 10:00:00", "2020-01-01 10:00:00"]
    session.push("T", [{"t": t, "at": at, "ts": 1} for t, at in enumerate(times)])
    session.advance(9)
    assert session.relation("V") == [{"n": 3, "y": 9999}]


def test_timestamps_limit_a_match_by_an_interval() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE T (k INT, at TIMESTAMP, v INT) FROM t; CREATE STREAM S OVER T KEY NULL;"
        "CREATE STREAMED VIEW V AS SELECT k, a, b FROM S MATCH_RECOGNIZE (PARTITION BY k ORDER BY at "
        "MEASURES A.v AS a, B.v AS b PATTERN (A B) WITHIN INTERVAL '1' MINUTE DEFINE B AS B.v > A.v) AS m"
    )
    times = ["2024-01-01 10:00:00", "2024-01-01 10:01:00", "2024-01-01 10:03:00", "2024-01-01 10:03:30"]
    session.push("T", [{"k": 1, "at": at, "v": v, "ts": v} for v, at in enumerate(times)])
    session.advance(9)
    assert session.relation("V") == [{"k": 1, "a": 0, "b": 1}, {"k": 1, "a": 2, "b": 3}]


def test_a_search_that_does_not_end_is_a_fault() -> None:
    """With conditions on the match so far, all combinations have to be tried."""
    session = LocalSession()
    session.execute(
        f"{SOURCES} CREATE STREAMED VIEW V AS SELECT * FROM A MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n "
        "PATTERN ((X | Y)+ Z) DEFINE X AS SUM(X.v) >= 0, Y AS SUM(Y.v) >= 0, Z AS v < 0)"
    )
    session.push("Prices", [{"p": "x", "t": t, "v": 1, "ts": 1, "op": "+"} for t in range(24)])
    session.advance(30)
    letters = session.dead_letters("Prices")
    assert letters and "MATCH_RECOGNIZE gave up after 10,000 steps" in letters[0]["reason"]
    assert session.relation("V") == []
