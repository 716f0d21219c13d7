"""The cluster of all tests in this directory. Each test uses its own names, and restarts each process that it kills."""

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
    """The shared cluster; a module may override this fixture to prepare it."""
    return shared
