"""Counts the features of drawn cases: `python -m tests.algebra.features 2000` prints the table of docs/testing.md."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, seed, settings

from dsms.testing import LocalSession
from tests.algebra.cases import Case, cases
from tests.algebra.even_draws import install
from tests.support.oracle import Record

#: For each feature, the pattern by which it is found in the statements of a case.
PATTERNS = {
    "join by a comma, JOIN, CROSS JOIN": r"[0-9)] JOIN| , |CROSS JOIN [(SVR]",
    "LEFT, RIGHT, FULL JOIN": r"(LEFT|RIGHT|FULL) JOIN (?!LATERAL)",
    "NATURAL, USING": r"NATURAL|USING \(",
    "ASOF JOIN": r"ASOF JOIN",
    "ASOF LEFT JOIN": r"ASOF LEFT JOIN",
    "LATERAL": r"LATERAL",
    "LEFT JOIN LATERAL": r"LEFT JOIN LATERAL",
    "IN (SELECT)": r" IN \(SELECT",
    "NOT IN (SELECT)": r"NOT IN \(SELECT",
    "EXISTS, NOT EXISTS": r"EXISTS \(SELECT",
    "ANY, ALL": r"[=<>] (ANY|ALL) \(SELECT",
    "scalar subquery": r"[<>=,(] \(SELECT (COUNT|SUM|MIN|MAX)",
    "GROUP BY": r"GROUP BY",
    "GROUPING SETS, ROLLUP, CUBE": r"GROUPING SETS|ROLLUP|CUBE",
    "HAVING": r"HAVING",
    "FILTER": r"FILTER \(",
    "aggregates with DISTINCT": r"\w\(DISTINCT",
    "aggregates with ORDER BY, WITHIN GROUP": r"\w\([^()]*ORDER BY|WITHIN GROUP",
    "ARRAY_AGG": r"ARRAY_AGG",
    "UNNEST": r"UNNEST",
    "UNNEST in the select list": r"UNNEST\(ARRAY[^()]*\) AS c|UNNEST\(ARRAY\[.*\]\)[^()]* AS c\d",
    "generate_series": r"generate_series",
    "ARRAY(SELECT)": r"ARRAY\(SELECT",
    "comparisons of rows": r"\(COALESCE\(.*\)\) (=|<>|[<>]=?|IN|BETWEEN) \(",
    "operators of arrays": r"@>|<@|&&",
    "GROUP BY ALL": r"GROUP BY ALL",
    "IGNORE NULLS": r"IGNORE NULLS",
    "SELECT DISTINCT": r"DISTINCT (?!ON|FROM)[a-z(]",
    "DISTINCT ON": r"DISTINCT ON",
    "UNION of streams": r"FROM D\d+ UNION SELECT",
    "UNION, EXCEPT, INTERSECT": r"UNION|EXCEPT|INTERSECT",
    "ORDER BY … LIMIT": r"LIMIT",
    "OFFSET": r"OFFSET",
    "rank compared by a query around": r"(ROW_NUMBER|RANK)\(\) OVER .*\) AS a\d+ WHERE a\d+\.r\d+ ",
    "QUALIFY": r"QUALIFY",
    "OVER": r"OVER \(",
    "running totals by TS": r"ORDER BY a\d+\.TS( ROWS UNBOUNDED PRECEDING)?\)",
    "frames by RANGE": r"\bRANGE (BETWEEN|[\d.]+ PREC|INTERVAL)",
    "VALUES": r"VALUES",
    "WITH": r"\(WITH (?!REC)",
    "WITH RECURSIVE": r"WITH RECURSIVE",
    "MATCH_RECOGNIZE": r"MATCH_RECOGNIZE",
    "predicates over Now": r"\bNow\b(?!\])",
    "[Range], [Now]": r"\[(Range|Now)",
    "[Rows], [Partition By]": r"\[(Rows|Partition)",
    "[… Where condition]": r"\[[^\]]* Where ",
    "WINDOW(…) of PIPES": r"WINDOW\(",
    "TUMBLE, HOP, CUMULATE": r"(TUMBLE|HOP|CUMULATE)\(",
    "SESSION": r"SESSION\(",
    "EMIT FINAL": r"EMIT FINAL",
    "R[Sync](…), periodic": r"R\[Sync",
    "R[Stream](…), event-based": r"R\[S\d",
    "views": r"VIEW V",
    "Istream": r"Istream",
    "Dstream": r"Dstream",
    "Rstream": r"Rstream",
}


def features(case: Case) -> set[str]:
    """The names of the features of a case."""
    text = "; ".join([*case.views, case.query])
    names = {name for name, pattern in PATTERNS.items() if re.search(pattern, text)}
    records = [event for source in case.sources for event in source.events if isinstance(event, Record)]
    return names | {name for name, there in _others(case, records, text).items() if there}


def _others(case: Case, records: Sequence[Record], text: str) -> dict[str, bool]:
    keyed = [source for source in case.sources if source.keys]
    return {
        "tables, with INSERT, UPDATE, DELETE": bool(case.tables) and "Tab" in text,
        "joins and EXISTS by a range of distances": "BandJoin" in _plan(case) or "IntervalJoin" in _plan(case),
        "DECIMAL": ".m" in text,
        "DATE, TIMESTAMP": ".y" in text or ".h" in text,
        "TS of a view": bool(case.kept),
        "keyed streams": bool(keyed),
        "deletions": any(record.deletion for record in records),
        "records out of order": any(_backwards(source.events) for source in case.sources),
        "NULLs in the records": any(value is None for record in records for value in record.row.values()),
        "SESSION over rows that leave": "SESSION(" in text and (bool(keyed) or "[" in text),
        "doubles whose sums round": any("d" in source.columns for source in case.sources) and ".d" in text,
    }


def _plan(case: Case) -> str:
    session = LocalSession()
    session.execute("; ".join(case.statements))
    return session.explain("Q")


def _backwards(events: Sequence[object]) -> bool:
    instants = [event.ts for event in events if isinstance(event, Record)]
    return any(after < before for before, after in zip(instants, instants[1:], strict=False))


def counted(count: int, number: int) -> Counter[str]:
    """How many of `count` drawn cases have each feature."""
    total: Counter[str] = Counter(dict.fromkeys(PATTERNS, 0))

    @seed(number)
    @settings(
        max_examples=count, backend=install(), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases())
    def count_case(case: Case) -> None:
        total.update(features(case))

    count_case()
    return total


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for name, times in counted(asked, 1).items():
        sys.stdout.write(f"| {name} | {times} |\n")
