"""Iceberg and Delta tables in a real S3-compatible server: the position and the rows are committed together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from connectors.tables.sink_targets import open_sink
from integration.s3_server import BUCKET, s3_server
from operators.core.errors import UserError
from tests.connectors.test_sinks import KEYED, changes, history, relation, token
from tests.support import lake_tables

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture
def server(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The server, as the environment and the configuration of pyiceberg name it."""
    catalog = {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path / 'catalog.db'}",
        "WAREHOUSE": f"s3://{BUCKET}/iceberg",
        "S3__ENDPOINT": environment["AWS_ENDPOINT_URL"],
    }
    for name, value in catalog.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    for name, value in {**environment, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.mark.parametrize("target", [f"delta:s3://{BUCKET}/hot", "iceberg://lake"])
def test_a_table_in_an_object_store_is_the_result(server: dict[str, str], tmp_path: Path, target: str) -> None:
    """After each step, of two sinks that began at the same position only one has committed."""
    rows = history(12)
    for start in range(0, 12, 4):
        first, second = (open_sink(target, KEYED) for _ in range(2))
        assert token(first) == token(second) == (f"o1:{start}" if start else None)
        first.take(changes(*rows[start : start + 4]), f"o1:{start + 4}")
        with pytest.raises(UserError, match="another process has written"):
            second.take(changes(*rows[start : start + 4]), f"o1:{start + 4}")
        assert files_of(server, target, tmp_path) == relation(rows[: start + 4])
        first.close()
        second.close()


def files_of(server: dict[str, str], target: str, directory: Path) -> list[tuple[object, ...]]:
    """The rows of the table, which DuckDB reads from copies of the objects."""
    copied = directory / "copied"
    client = boto3.client("s3", endpoint_url=server["AWS_ENDPOINT_URL"])
    for each in client.list_objects_v2(Bucket=BUCKET)["Contents"]:
        file = copied / BUCKET / each["Key"]
        file.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(BUCKET, each["Key"], str(file))
    client.close()
    found = (
        lake_tables.delta_files(copied / BUCKET / "hot")
        if target.startswith("delta:")
        else lake_tables.iceberg_files(directory, "dsms.hot", copied)
    )
    return lake_tables.rows(found, "room, n, mean::VARCHAR")
