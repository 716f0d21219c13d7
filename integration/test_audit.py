"""The audit log of a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dsms.model.tokens import entry, new_token
from integration.cluster import Cluster, Refused, running

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
ROOT, ROOT_ENTRY = new_token("root", "administrator")
ANN, ANN_ENTRY = new_token("ann", "writer")


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("audit")
    tokens = directory / "tokens.toml"
    tokens.write_text(f"{entry(ROOT_ENTRY)}\n{entry(ANN_ENTRY)}\n")
    with running(kafka, redis_url, directory, environment={"DSMS_TOKENS": str(tokens)}) as cluster:
        yield cluster


def test_audit_log_is_shown_to_administrators_only(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE audited (k INT PRIMARY KEY); INSERT INTO audited VALUES (1)", ANN)
    with pytest.raises(Refused):
        cluster.sql("DROP TABLE nothing_here", ANN)
    with pytest.raises(Refused):
        cluster.sql("LOAD TABLE audited FROM DATABASE 'postgresql://ann:s3cr3t@127.0.0.1:1/x' QUERY 'SELECT 1'", ROOT)
    with pytest.raises(Refused) as refused:
        cluster.sql("SHOW AUDIT", ANN)
    assert refused.value.status == 403
    shown = cluster.sql("SHOW AUDIT LIMIT 200", ROOT)[0]
    assert shown["columns"][:5] == ["at", "token", "role", "event", "what"]
    acts = [(row[1], row[3], row[4]) for row in reversed(shown["rows"])]
    created = ("ann", "begun", "CREATE TABLE audited (k INT PRIMARY KEY)")
    assert created in acts and (created[0], "done", created[2]) in acts
    assert ("ann", "done", "INSERT INTO audited VALUES (1)") in acts
    assert ("ann", "failed", "DROP TABLE nothing_here") in acts
    loads = [row for row in shown["rows"] if row[4].startswith("LOAD")]
    assert {row[3] for row in loads} <= {"begun", "failed"} and loads
    assert "s3cr3t" not in str(shown) and "ann:***@127.0.0.1" in str(loads)
    ids = [row[7] for row in shown["rows"] if row[4] == created[2]]
    assert len(ids) == 2 and len(set(ids)) == 1
    assert [row[0] for row in reversed(shown["rows"])] == sorted(row[0] for row in shown["rows"])
