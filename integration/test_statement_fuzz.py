"""A few hundred random statements; `python -m integration.statement_fuzz` sends any number."""

from __future__ import annotations

import pytest

from integration.statement_fuzz import fuzz, own_cluster
from integration.statement_grammar import StatementGrammar, corpus

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


def test_no_statement_makes_the_server_fail() -> None:
    with own_cluster() as cluster:
        report = fuzz(cluster, 600, seed=11)
        assert not report.failed, report.failed
        assert report.statements == 600 and {"200", "400", "404"} & report.statuses.keys() >= {"200", "400"}
        assert cluster.sql("SELECT 1 AS one")[0]["rows"] == [[1]]


def test_a_seed_gives_the_same_statements() -> None:
    first, second, other = (StatementGrammar(seed) for seed in (3, 3, 4))
    drawn = [first.next() for _ in range(200)]
    assert drawn == [second.next() for _ in range(200)] != [other.next() for _ in range(200)]
    assert len(corpus()) > 100 and len(set(drawn)) > 180
