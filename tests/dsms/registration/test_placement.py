"""Placement: a query goes to the fragment with the least load, by measurements and weights."""

from __future__ import annotations

import pytest

from dsms.model.catalog import Catalog
from tests.support.fake_environment import FakeEnvironment, apply_all

SOURCES = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; REGISTER SOURCE U (k VARCHAR, v INT) FROM u;
CREATE STREAM A OVER T KEY NULL; CREATE STREAM B OVER U KEY NULL;
"""


class Measured(FakeEnvironment):
    """An environment with fragments of the given utilization."""

    def __init__(self, **busy: float) -> None:
        super().__init__({topic: {0: 0} for topic in "tu"})
        self.measured = {name.removeprefix("f"): load for name, load in busy.items()}

    def utilization(self) -> dict[str, float]:
        return self.measured


def dealt(facts: Measured, *queries: str, before: Catalog | None = None) -> tuple[Catalog, list[str]]:
    """Creates queries without shared operators one after another; returns the catalog and their fragments."""
    known = len(before.queries()) if before else 0
    sql = ";".join(
        f"CREATE QUERY q{known + at} AS SELECT STREAMED {text} AND v <> {known + at}" for at, text in enumerate(queries)
    )
    catalog, _ = apply_all(sql if before else SOURCES + sql, before, facts)
    return catalog, [query.fragment for query in catalog.queries()][known:]


def test_measured_load_counts_as_much_as_weights() -> None:
    """The ratio is 1 : 1 by weights and 9 : 1 by measurement. 0.9 + 1 / 7 is about 0.1 + 6 / 7; therefore the sixth
    query goes to the busy fragment."""
    catalog, first = dealt(Measured(f0=0, f1=0), "v FROM A WHERE v > 1", "k FROM B WHERE v > 2")
    assert sorted(first) == ["0", "1"]
    more = [f"v FROM A WHERE v > {at} AND k LIKE 'x{at}%'" for at in range(3, 9)]
    _, even = dealt(Measured(f0=1, f1=1), *more, before=catalog)
    _, uneven = dealt(Measured(f0=9, f1=1), *more, before=catalog)
    assert even.count("0") == 3 and uneven == [*"111110"]


@pytest.mark.parametrize(("busy", "expected"), [(1.05, "0"), (4.0, "1")])
def test_slightly_less_load_is_no_reason_to_read_a_source_twice(busy: float, expected: str) -> None:
    catalog, (of_a, of_b) = dealt(Measured(f0=0, f1=0), "v FROM A WHERE v > 1", "k FROM B WHERE v > 2")
    assert (of_a, of_b) == ("0", "1")
    assert dealt(Measured(f0=busy, f1=1), "k FROM A WHERE v > 3", before=catalog)[1] == [expected]
