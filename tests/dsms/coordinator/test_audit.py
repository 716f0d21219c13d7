"""The audit log: which acts are audited and when, and that an act that cannot be audited is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.audit.audit_log import audited
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.statements.statement_runner import StatementRunner
from dsms.model.audit_entry import AuditEntry, Event
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal
from dsms.model.tokens import new_token
from dsms.statements.registry import kind_of_statement, parse
from dsms.statements.show.audit import ShowAudit
from operators.core.errors import ExternalError, SqlError, UserError
from operators.core.masking import masked
from tests.support.fake_service import FakeService
from tests.support.statement_cluster import StatementCluster

ANN = Caller(Principal("ann", "writer"), "r1")
TEXT, TOKEN = new_token("ann", "writer")
READER_TEXT, READER = new_token("bob", "reader")


class Notes:
    """An audit log in memory. While it is `away`, no act can be audited."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str, str, str, int]] = []
        self.away = False

    def begins(self, caller: Caller, what: str) -> None:
        if self.away:
            raise ExternalError("nothing was done, since the audit log cannot be written: away")
        self.acts.append((caller.principal.name, "begun", what, "", 0))

    def ended(self, caller: Caller, what: str, event: Event, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.acts.append((caller.principal.name, event, what, outcome, 0))

    def refused(self, caller: Caller, what: str, outcome: str, more: int) -> None:
        self.acts.append((caller.principal.name, "refused", what, outcome, more))

    def last(self, count: int) -> list[AuditEntry]:
        return []


def client(notes: Notes) -> tuple[TestClient, FakeService]:
    service = FakeService()
    service.audit = notes
    service.limits = Limits(token_calls_per_second=1000)
    app = create_app(service, SchemaRegistry(lambda _: None), Access((TOKEN, READER)))
    return TestClient(app, headers={"Content-Type": "application/json"}), service


def test_changes_are_audited_before_and_after() -> None:
    notes = Notes()
    with audited(notes, ANN, "DROP VIEW v") as announce:
        announce()
        assert notes.acts == [("ann", "begun", "DROP VIEW v", "", 0)]
    with audited(notes, ANN, "SHOW VIEWS"):
        pass
    with pytest.raises(UserError), audited(notes, ANN, "DROP VIEW w") as announce:
        announce()
        raise UserError("no w")
    assert [act[1:4] for act in notes.acts[1:]] == [
        ("done", "DROP VIEW v", ""),
        ("done", "SHOW VIEWS", ""),
        ("begun", "DROP VIEW w", ""),
        ("failed", "DROP VIEW w", "no w"),
    ]


def test_changes_are_refused_if_they_cannot_be_audited() -> None:
    notes, done = Notes(), []
    notes.away = True
    with pytest.raises(ExternalError, match="nothing was done"), audited(notes, ANN, "DROP VIEW v") as announce:
        announce()
        done.append(1)
    calls, service = client(notes)
    answer = calls.delete("/v1/streams/hot", headers={"Authorization": f"Bearer {TEXT}"})
    assert (answer.status_code, done, service.executed) == (503, [], [])
    assert "nothing was done" in answer.text
    assert calls.get("/v1/queries", headers={"Authorization": f"Bearer {READER_TEXT}"}).status_code == 200


def test_a_select_that_creates_a_query_is_audited_as_a_change() -> None:
    notes, cluster = Notes(), StatementCluster()
    cluster.runner = StatementRunner(replace(cluster.parts, audit=notes))
    cluster.execute("CREATE STREAM C (a INT); SELECT a FROM C; SELECT k FROM base")
    assert [act[1:3] for act in notes.acts] == [
        ("begun", "CREATE STREAM C (a INT)"),
        ("done", "CREATE STREAM C (a INT)"),
        ("begun", "SELECT a FROM C"),
        ("done", "SELECT a FROM C"),
        ("done", "SELECT k FROM base"),
    ]
    notes.away = True
    objects = set(cluster.store.catalog.objects)
    with pytest.raises(ExternalError, match="nothing was done"):
        cluster.execute("SELECT a FROM C WHERE a > 1")
    assert set(cluster.store.catalog.objects) == objects
    assert cluster.execute("SELECT k FROM base")


def test_calls_and_refusals_are_audited() -> None:
    notes = Notes()
    calls, _ = client(notes)
    calls.post("/v1/tables/readings/rows", content=b"{}", headers={"Authorization": f"Bearer {TEXT}"})
    calls.get("/v1/queries", headers={"Authorization": f"Bearer {READER_TEXT}"})
    begun, ended = notes.acts
    assert begun == ("ann", "begun", "POST /v1/tables/readings/rows", "", 0)
    assert ended == ("ann", "done", "POST /v1/tables/readings/rows", "HTTP 200", 0)
    del notes.acts[:]
    calls.get("/v1/queries")
    calls.delete("/v1/streams/hot", headers={"Authorization": f"Bearer {READER_TEXT}"})
    assert notes.acts == [
        ("", "refused", "GET /v1/queries", "HTTP 401", 0),
        ("bob", "refused", "DELETE /v1/streams/hot", "HTTP 403", 0),
    ]


def test_flood_of_refusals_is_audited_in_part_and_counted() -> None:
    notes = Notes()
    calls, _ = client(notes)
    for _ in range(60):
        assert calls.get("/v1/queries").status_code == 401
    assert 10 <= len(notes.acts) < 60
    assert all(act[1] == "refused" for act in notes.acts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("REGISTRY 'https://me:pa/ss@reg:8081/x'", "REGISTRY 'https://me:***@reg:8081/x'"),
        ("sasl.password = hunter2, sasl.username = ann", "sasl.password = ***, sasl.username = ann"),
        ('{"token": "abc", "a": 1}', '{"token": "***", "a": 1}'),
        ("SELECT password, token FROM users WHERE secret > 3", "SELECT password, token FROM users WHERE secret > 3"),
        ("http://host:8081/a", "http://host:8081/a"),
    ],
)
def test_secrets_are_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize("text", ["x" * 2_000_000, "a://b:" * 300_000, "password " * 200_000, " " * 2_000_000])
def test_masking_takes_time_in_proportion_to_the_text(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("LOAD TABLE t FROM DATABASE 'sqlite:///f' QUERY 'SELECT 1'", "LOAD TABLE t FROM DATABASE 'sqlite:///f'"),
        ("CREATE OR REPLACE QUERY q AS SELECT k FROM R(S)", "CREATE OR REPLACE QUERY q"),
    ],
)
def test_every_statement_has_a_text(sql: str, text: str) -> None:
    (statement,) = parse(sql)
    assert statement.sql.startswith(text)


def test_show_audit() -> None:
    (statement,) = parse("SHOW AUDIT LIMIT 7")
    assert isinstance(statement, ShowAudit) and statement.limit == 7
    assert kind_of_statement(statement).role == "administrator"
    for wrong in ("SHOW AUDIT LIMIT 0", "SHOW AUDIT LIMIT x", "SHOW AUDIT LIMIT 10001", "SHOW AUDIT now"):
        with pytest.raises(SqlError):
            parse(wrong)
