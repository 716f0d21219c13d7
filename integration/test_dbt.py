"""dbt-postgres creates a view from a model, tests the view and refreshes it; the view is always up to date."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dsms.local.ports import free_port
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
#: Later versions need a program that is not on PyPI.
PACKAGES = ("dbt-core>=1.10,<1.11", "dbt-postgres>=1.10,<1.11")
PROJECT = {
    "dbt_project.yml": {"name": "shop", "version": "1.0.0", "profile": "shop", "model-paths": ["models"], "flags": {
        "send_anonymous_usage_stats": False}},
    "models/schema.yml": {"version": 2, "models": [{"name": "spent_by_customer", "columns": [
        {"name": "customer", "data_tests": ["not_null", "unique"]},
        {"name": "n", "data_tests": [{"accepted_values": {"arguments": {"values": [2, 3], "quote": False}}}]},
    ]}]},
}  # fmt: skip
MODEL = """{{ config(materialized='materialized_view') }}
SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer
"""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def cluster(kafka: str, redis_url: str, tmp_path: Path, port: int) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path / "cluster", environment={"DSMS_POSTGRES_PORT": str(port)}) as cluster:
        cluster.sql(f"""CREATE STREAM orders (customer TEXT, amount BIGINT, at BIGINT) ORDER BY at
            SOURCE '{cluster.name}orders' PARTITIONS 1 IDLE NEVER""")
        cluster.start_executor()
        yield cluster


def dbt(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs dbt in a separate environment, because it needs other versions of this project's packages."""
    uv = [str(Path(sys.executable).with_name("uv")), "tool", "run", "--system-certs", "--quiet"]
    packages = ["--from", PACKAGES[0], "--with", PACKAGES[1]]
    here = ["--project-dir", str(project), "--profiles-dir", str(project), "--no-use-colors"]
    command = [*uv, *packages, "dbt", *arguments, *(here if arguments != ("--version",) else [])]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=project)


@pytest.fixture
def project(tmp_path: Path, port: int) -> Path:
    place = tmp_path / "shop"
    (place / "models").mkdir(parents=True)
    try:
        found = dbt(place, "--version")
    except subprocess.TimeoutExpired:
        pytest.skip("dbt cannot be installed here: the registry of packages does not answer")
    if found.returncode:
        pytest.skip(f"dbt cannot be installed here: {found.stderr.strip()}")
    target = {"type": "postgres", "host": "127.0.0.1", "port": port, "user": "ann", "password": "none",
              "dbname": "dsms", "schema": "public", "threads": 1}  # fmt: skip
    profile = {"shop": {"target": "here", "outputs": {"here": target}}}
    for name, document in {**PROJECT, "profiles.yml": profile}.items():
        (place / name).write_text(json.dumps(document))  # JSON is valid YAML
    (place / "models" / "spent_by_customer.sql").write_text(MODEL)
    return place


def test_a_model_is_a_view_that_follows_its_source(cluster: Cluster, project: Path, port: int, kafka: str) -> None:
    def publish(first: int, customers: str) -> None:
        rows = [{"customer": name, "amount": at, "at": at} for at, name in enumerate(customers, first)]
        write(kafka, f"{cluster.name}orders", [Input(json.dumps(row).encode(), 0) for row in rows])
        advance(kafka, f"{cluster.name}orders", first + 50)
        cluster.await_frontier(cluster.topic("spent_by_customer"), first + 50)

    made = dbt(project, "run")
    assert made.returncode == 0, made.stdout
    publish(1, "abab")
    checked = dbt(project, "test")
    assert "PASS=3 WARN=0 ERROR=0" in checked.stdout, checked.stdout
    publish(101, "aac")
    again = dbt(project, "run")
    assert again.returncode == 0 and "REFRESH MATERIALIZED VIEW" in again.stdout, again.stdout
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ann dbname=dsms", autocommit=True) as connection:
        found = connection.execute("SELECT customer, n, total FROM spent_by_customer ORDER BY customer").fetchall()
    assert found == [("a", 4, 207), ("b", 2, 6), ("c", 1, 103)]
    refused = dbt(project, "test")  # the model accepts the counts 2 and 3 only
    assert "PASS=2 WARN=0 ERROR=1" in refused.stdout, refused.stdout
