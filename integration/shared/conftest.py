"""The cluster of all tests here, which choose names of their own; what they kill they start again."""

from collections.abc import Iterator

import pytest

from integration.cluster import Cluster, running


@pytest.fixture(scope="package")
def shared(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A coordinator and one executor."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("shared")) as cluster:
        cluster.start_executor()
        yield cluster


@pytest.fixture(scope="module")
def cluster(shared: Cluster) -> Cluster:
    """The same; a module may prepare it."""
    return shared
