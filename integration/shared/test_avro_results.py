"""Schemas of results in Avro: the name of a query's schema in the registry does not depend on other queries."""

from __future__ import annotations

import pytest

from integration.cluster import Cluster, Refused


@pytest.fixture
def stream(cluster: Cluster, unique: str) -> str:
    """Creates a stream over a new source."""
    cluster.sql(
        f'REGISTER SOURCE {unique}t (k VARCHAR, v BIGINT, w VARCHAR) FROM "{unique}t" PARTITIONS 1; '
        f"CREATE STREAM {unique}s OVER {unique}t KEY k"
    )
    return f"{unique}s"


def create(cluster: Cluster, name: str, stream: str, constant: int, column: str = "v") -> None:
    select = f"SELECT k, {column} AS x FROM R({stream}) WHERE v > {constant}"
    cluster.sql(f"CREATE QUERY {name} WITH (format = avro) AS {select}")


def test_recreated_query_keeps_its_schema_alone_or_in_a_family(cluster: Cluster, unique: str, stream: str) -> None:
    first, second, third = (f"{unique}{name}" for name in "abc")
    for constant, name in enumerate((first, second, third)):
        create(cluster, name, stream, constant)
    for name in (first, third):  # the first was alone before and now joins the family of others
        cluster.sql(f"DROP QUERY {name}")
    create(cluster, first, stream, 5)
    create(cluster, third, stream, 6)
    for name in (first, second, third):
        cluster.sql(f"DROP QUERY {name}")
    create(cluster, third, stream, 7)  # was in the family before and is now alone


def test_incompatible_result_schema_fails_the_statement(cluster: Cluster, unique: str, stream: str) -> None:
    create(cluster, f"{unique}q", stream, 1)
    cluster.sql(f"DROP QUERY {unique}q")
    with pytest.raises(Refused, match="incompatible with an earlier one of subject") as refused:
        create(cluster, f"{unique}q", stream, 1, column="w")
    assert (refused.value.status, refused.value.error["kind"]) == (400, "user")
