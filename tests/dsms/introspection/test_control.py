"""Control tables in SQL, over HTTP and as streams, and the objects of the system."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient

from connectors.formats import JsonDecoder
from dsms.coordinator.catalog.system_objects import is_system, refuse_reserved, with_system_objects
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.coordinator.watcher.object_states import States
from dsms.introspection.sample_records import OPERATORS, QUEUES, changed
from dsms.model.catalog import Catalog
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.model.tokens import new_token
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.runtime.fragment.story import Story, StoryEntry
from dsms.runtime.stages.intake import reading_schema
from dsms.scheduling.tuning import TunableSettings, Tuning, read_tuning
from dsms.statements.registry import kind_of_statement, parse
from dsms.testing import LocalSession
from operators.core.errors import DsmsError, SqlError, UserError
from tests.support.fake_service import FakeService
from tests.support.statement_cluster import StatementCluster

SQL = """REGISTER SOURCE T (room VARCHAR, t INT) FROM t; CREATE STREAM S OVER T KEY room;
CREATE STREAMED VIEW Hot AS SELECT room, t FROM R(S) WHERE t > 80;
CREATE QUERY Twin AS SELECT room, t FROM R(S) WHERE t > 80;
CREATE QUERY Peers AS SELECT a.room, b.t FROM Hot a JOIN Hot b ON a.room = b.room"""


@pytest.fixture
def session() -> LocalSession:
    """A session with 100 records: t goes from 0 to 99, room repeats a to j."""
    session = LocalSession(2)
    session.execute(SQL)
    session.push("T", [{"room": "abcdefghij"[at % 10], "t": at, "ts": at} for at in range(100)])
    session.advance(200)
    return session


class MemoryCluster:
    """The documents of a cluster in memory, in place of Redis."""

    def __init__(self, session: LocalSession) -> None:
        self.session, self.tunings = session, dict[str, bytes]()
        self.tunable = TunableSettings(10, 1000, 1.0)

    def reports(self) -> dict[str, bytes]:
        return {report.fragment: msgspec.msgpack.encode(report) for report in self.session.reports()}

    def executors(self) -> dict[str, bytes]:
        status = ExecutorStatus(RUNNING, fragments={"0": RUNNING}, tunable=self.tunable)
        return {"e1": msgspec.json.encode(status)}

    def tuning(self, executor: str) -> bytes | None:
        return self.tunings.get(executor)

    def set_tuning(self, executor: str, body: bytes) -> None:
        self.tunings[executor] = body
        self.tunable = read_tuning(body).over(TunableSettings(10, 1000, 1.0))

    def stories(self, fragment: str) -> dict[str, bytes]:
        story = Story(
            (
                StoryEntry("started", 1.0, plan_version=3, queries=("Hot", "Twin")),
                StoryEntry("query failed", 2.0, queries=("Twin",), reason="1 / 0"),
            )
        )
        return {"e1": msgspec.msgpack.encode(story)} if fragment == "0" else {}

    def request_checkpoint(self, number: int) -> None:
        self.checkpoint_request = number


class ControlService(FakeService):
    def __init__(self, session: LocalSession) -> None:
        super().__init__()
        cluster: Any = MemoryCluster(session)
        self.session = session
        self.control = ControlTables(cluster, lambda: session.catalog, lambda: running(session.catalog), session.run)

    def execute(self, sql: str, caller: Caller, cancelled: object = None) -> list[StatementResult]:
        return self.session.run(sql)


def running(catalog: Catalog) -> States:
    """The states with one executor that runs all queries."""
    lanes = {query.id: QueryStatus() for query in catalog.queries()}
    return States(lambda: {"e1": ExecutorStatus(RUNNING, lanes=lanes)}, {})


@pytest.fixture
def tables(session: LocalSession) -> ControlTables:
    return ControlService(session).control


def answered(tables: ControlTables, sql: str) -> StatementResult:
    """The result of a statement of a cluster with these control tables."""
    return StatementCluster("", control=tables, catalog=tables.catalog()).execute(sql)[0]


@pytest.fixture
def client(session: LocalSession) -> TestClient:
    return TestClient(create_app(ControlService(session), SchemaRegistry(lambda _: None)))


def test_a_plan_is_shown_with_its_measurements(session: LocalSession) -> None:
    rows = session.execute("EXPLAIN ANALYZE Hot")
    called = [str(row["operator"]).strip() for row in rows]
    assert called[-1] == "Source" and "Filter t > 80" in called and "Tagger: ℜ(S) over source T" in called
    filtered = rows[called.index("Filter t > 80")]
    # an update of a room retracts its old row and adds its new one: 19 of the added rows and 9 of the retracted rows
    # are above 80
    assert (filtered["rows in"], filtered["rows out"]) == (100 + 90, 19 + 9)
    assert (rows[-1]["rows in"], rows[-1]["rows out"], rows[-1]["state rows"]) == (100, 100, 0)
    assert filtered["shared with"] == "Twin, Peers" and "S" in str(rows[-1]["shared with"])
    assert sum(float(str(row["time %"])) for row in rows) == pytest.approx(100, rel=1e-2)
    depths = [len(str(row["operator"])) - len(str(row["operator"]).lstrip()) for row in rows]
    assert depths == [2 * at for at in range(len(rows))]


def test_an_operator_that_feeds_two_is_shown_twice_and_its_inputs_once(session: LocalSession) -> None:
    called = [str(row["operator"]).strip() for row in session.execute("EXPLAIN ANALYZE Peers")]
    (join,) = [name for name in called if name.startswith("Join")]
    assert join == "Join on room = b.room" or "on" in join
    assert sum("(as above)" in name for name in called) == 1 and called.count("Source") == 1


def test_a_query_that_has_not_run_has_no_measurements() -> None:
    session = LocalSession()
    session.execute(SQL)
    (result,) = session.run("EXPLAIN ANALYZE Hot")
    assert all(row[1] == 0 and row[5] is None for row in result.rows)
    for wrong, why in (
        ("EXPLAIN ANALYZE T", 'line 1, column 17: "T" is a source'),
        ("EXPLAIN ANALYZE Nope", '"Nope" not found'),
        ("EXPLAIN ANALYZE SELECT 1", "running query"),
        ("SHOW OPERATORS FOR Nope", '"Nope" not found'),
        ("SHOW QUEUES OF Hot", "unexpected"),
    ):
        with pytest.raises(SqlError, match=why):
            session.run(wrong)


def test_queues_and_synopses(session: LocalSession) -> None:
    (queue,) = session.execute("SHOW QUEUES FOR Hot")
    assert (queue["before"], queue["next offset"], queue["end offset"], queue["rows"]) == ("T/0", 100, 100, 0)
    synopses = {row["operator"]: row for row in session.execute("SHOW SYNOPSES FOR Hot")}
    assert synopses["Tagger"]["rows"] >= 10 and synopses["Tagger"]["bytes"] > 0
    by_target = [int(rows) for rows in str(synopses["Tagger"]["rows by target"]).split(", ")]
    assert len(by_target) == 2 and sum(by_target) == synopses["Tagger"]["rows"]


def test_the_interface_lists_and_finds(client: TestClient) -> None:
    everything = client.get("/v1/control/operators").json()
    selected = client.get("/v1/control/operators", params={"query": "twin"}).json()
    assert 0 < len(selected) < len(everything) and all("Twin" in operator["queries"] for operator in selected)
    first = selected[0]
    assert client.get(f"/v1/control/operators/{first['id']}").json()["rows_in"] == first["rows_in"]
    ids = {other["id"] for other in everything}
    assert all(feed in ids for other in everything for feed in other["inputs"])
    assert client.get("/v1/control/queues").json()[0]["rows"] == 0
    assert client.get("/v1/control/synopses", params={"query": "Hot"}).json()[0]["traces"] >= 1
    for path in ("operators/no", "queries/no", "executors/no", "operators?query=no"):
        assert client.get(f"/v1/control/{path}").status_code == 404


def test_attributes_of_a_query_are_written(client: TestClient, session: LocalSession) -> None:
    changed_to = client.patch("/v1/control/queries/hot", json={"weight": 1e-7, "paused": True}).json()
    assert (changed_to["id"], changed_to["weight"], changed_to["paused"]) == ("Hot", 1e-7, True)
    assert client.patch("/v1/control/queries/Hot", json={"paused": False}).json()["paused"] is False
    for limit, kept in (("2 MB", 2_000_000), (5_000_000, 5_000_000), ("none", None)):
        limited = client.patch("/v1/control/queries/Hot", json={"state_memory": limit}).json()
        assert (limited["state_memory"], limited["weight"]) == (kept, 1e-7)
    assert client.patch("/v1/control/queries/Hot", json={"state_memory": True}).status_code == 400
    refused = client.patch("/v1/control/queries/Hot", json={"state_memory": "1' MB"})
    assert (refused.status_code, refused.json()["error"]["message"].count("1' MB")) == (400, 1)
    assert session.catalog.find("Hot").weight == 1e-7  # type: ignore[union-attr]
    for wrong in ({"weight": 0}, {"weight": "x"}, {"name": "y"}, {"weight": -1}):
        assert client.patch("/v1/control/queries/Hot", json=wrong).status_code in (400, 422)
    assert client.patch("/v1/control/queries/no", json={"weight": 1}).status_code == 404


def test_bounds_of_an_executor_are_written(client: TestClient) -> None:
    patch = "/v1/control/executors/e1"
    assert client.patch(patch, json={"max_batch_records": 50}).json()["max_batch_records"] == 50
    both = client.patch(patch, json={"target_batch_seconds": 0.5}).json()
    assert (both["max_batch_records"], both["target_batch_seconds"], both["min_batch_records"]) == (50, 0.5, 10)
    refused = client.patch(patch, json={"max_batch_records": 5})
    assert refused.status_code == 400 and "above" in refused.json()["error"]["message"]
    back = client.patch(patch, json={"max_batch_records": None, "target_batch_seconds": None}).json()
    assert (back["max_batch_records"], back["target_batch_seconds"]) == (1000, 1.0)
    for wrong in ({"max_batch_records": 0}, {"target_batch_seconds": 1e9}, {"max_batch_records": 10**30}, {"x": 1}):
        assert client.patch(patch, json=wrong).status_code in (400, 422)


@pytest.mark.parametrize(
    ("statement", "set_to"),
    [
        ("ALTER EXECUTOR e1 SET POLICY 'chain(latency = 500 ms)'", {"policy": "chain(latency = 500 ms)"}),
        (
            "ALTER EXECUTOR e1 SET (policy = greedy, max_batch_records = 50)",
            {"policy": "greedy", "max_batch_records": 50},
        ),
        ("ALTER EXECUTOR e1 SET TARGET_BATCH_SECONDS = 0.5", {"target_batch_seconds": 0.5}),
        ("ALTER EXECUTOR e1 SET (trigger_interval_seconds = 1.5)", {"trigger_interval_seconds": 1.5}),
        ("ALTER EXECUTOR e1 SET (state_memory = '1.5 GB')", {"state_memory": 1_500_000_000}),
        ("ALTER EXECUTOR e1 SET (state_memory = 4096)", {"state_memory": 4096}),
        ("ALTER EXECUTOR e1 SET STATE_MEMORY none", {"state_memory": None}),
    ],
)
def test_executors_are_altered_and_shown(tables: ControlTables, statement: str, set_to: dict[str, object]) -> None:
    answered(tables, statement)
    assert {name: tables.entity("executors", "e1")[name] for name in set_to} == set_to
    (shown,) = answered(tables, "SHOW EXECUTORS").rows
    assert set(set_to.values()) <= set(shown) and shown[0] == "e1"
    assert kind_of_statement(parse(statement)[0]).role == "administrator"
    assert kind_of_statement(parse("SHOW EXECUTORS")[0]).role == "reader"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER EXECUTOR e1 SET POLICY lifo", 'policy "lifo" not found'),
        ("ALTER EXECUTOR e1 SET (max_batch_records = many)", 'max_batch_records needs a number, not "many"'),
        ("ALTER EXECUTOR e2 SET POLICY fifo", '"e2"'),
        ("ALTER EXECUTOR e1 SET (state_memory = 'much')", 'needs a size, not "much"; have: 500 MB'),
        ("ALTER EXECUTOR e1 SET SPEED 3", "POLICY"),
    ],
)
def test_executors_are_not_altered_to_nonsense(tables: ControlTables, statement: str, why: str) -> None:
    with pytest.raises(DsmsError, match=re.escape(why)):
        answered(tables, statement)


def test_only_an_administrator_changes_executors_and_a_reader_nothing(session: LocalSession) -> None:
    roles = ("reader", "writer", "administrator")
    made = {role: new_token(role, role) for role in roles}
    access = Access(tuple(kept for _, kept in made.values()))
    client = TestClient(create_app(ControlService(session), SchemaRegistry(lambda _: None), access))
    allowed: dict[str, set[str]] = {role: set() for role in roles}
    for role in roles:
        headers = {"Authorization": f"Bearer {made[role][0]}"}
        for method, path in (("GET", "operators"), ("PATCH", "queries/Hot"), ("PATCH", "executors/e1")):
            answer = client.request(method, f"/v1/control/{path}", headers=headers, json={})
            allowed[role] |= {path} if answer.status_code == 200 else set()
    assert [sorted(allowed[role]) for role in roles] == [
        ["operators"],
        ["operators", "queries/Hot"],
        ["executors/e1", "operators", "queries/Hot"],
    ]


def test_samples_are_rows_of_their_streams_and_only_what_changed(session: LocalSession) -> None:
    catalog = with_system_objects(Catalog(), "main", 1)
    before = next(report for report in session.reports() if any(operator.rows_in for operator in report.operators))
    for purpose, records in changed(None, before).items():
        source: Any = catalog.objects[f"dsms_{purpose}_source"]
        decoded = JsonDecoder(reading_schema(source)).decode([value for _, value in records])
        assert not decoded.refused and decoded.frame.height == len(records) > 0
        assert set(source.schema.names) == set(msgspec.json.decode(records[0][1]))
    ran = {
        msgspec.json.decode(value)["operator"]: msgspec.json.decode(value)
        for _, value in changed(None, before)[OPERATORS]
    }
    assert (ran["Source"]["rows_in"], ran["Source"]["executor"]) == (100, "local")
    assert changed(before, before) == {OPERATORS: [], QUEUES: []}
    session.push("T", [{"room": "a", "t": 99, "ts": 300}])
    after = next(report for report in session.reports() if report.fragment == before.fragment)
    ran_again = {msgspec.json.decode(value)["operator"] for _, value in changed(before, after)[OPERATORS]}
    assert "Source" in ran_again and len(changed(before, after)[QUEUES]) == 1


def test_system_objects_do_not_change_users_objects() -> None:
    session = LocalSession()
    session.catalog = with_system_objects(Catalog(), "main", 3)
    session.execute(SQL)
    alone = LocalSession()
    alone.execute(SQL)
    own = {name: object_ for name, object_ in session.catalog.objects.items() if not is_system(object_)}
    assert own == alone.catalog.objects
    again = with_system_objects(session.catalog, "main", 3)
    assert again is session.catalog
    taken = LocalSession()
    taken.execute("REGISTER SOURCE dsms_queues (a INT) FROM t")
    assert with_system_objects(taken.catalog, "main", 1) is taken.catalog


@pytest.mark.parametrize(
    "statement",
    [
        "DROP STREAM dsms_operators",
        "DROP SOURCE DSMS_operators_source CASCADE",
        "CREATE TABLE dsms_t (a INT PRIMARY KEY)",
        "CREATE STREAM dsms_x OVER T KEY NULL",
        "REGISTER SOURCE dsms_y (a INT) FROM t",
        "CREATE OR REPLACE QUERY dsms_q AS SELECT a FROM s",
        "CREATE STREAM dsms_z (a INT) SOURCE 't'",
    ],
)
def test_names_of_the_system_are_refused(statement: str) -> None:
    with pytest.raises(SqlError, match="line 1, column .*is reserved"):
        refuse_reserved(parse(statement)[0], with_system_objects(Catalog(), "main", 1))
    refuse_reserved(parse("CREATE QUERY mine AS SELECT id FROM dsms_operators")[0], Catalog())


def test_an_older_object_with_a_reserved_name_can_be_dropped() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE dsms_mine (a INT) FROM t")
    refuse_reserved(parse("DROP SOURCE dsms_mine")[0], session.catalog)


def test_contradictory_bounds_are_refused() -> None:
    start = TunableSettings(10, 1000, 1.0)
    times = Tuning(target_batch_seconds=0.0), Tuning(trigger_interval_seconds=-1), Tuning(trigger_interval_seconds=61)
    for wrong in (Tuning(max_batch_records=9), Tuning(min_batch_records=0), *times):
        with pytest.raises(UserError):
            wrong.over(start)


def test_state_memory_limit_needs_all_workers_on_one_host() -> None:
    elsewhere = TunableSettings(10, 1000, 1.0, one_host=False)
    assert Tuning(state_memory="none").over(elsewhere).state_memory is None
    with pytest.raises(UserError, match=r"needs all workers on one host.*local\["):
        Tuning(state_memory=0).over(elsewhere)


def test_windows_with_a_range_are_expected_at_their_present_size() -> None:
    session = LocalSession()
    session.execute(
        """REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY NULL;
        CREATE QUERY Q WITH (memory = '1 MB') AS
            SELECT STREAMED k, MAX(TS) AS m FROM S [Range Min 0 Max 399] GROUP BY k"""
    )
    session.push("T", [{"k": at % 3, "ts": at} for at in range(1000)])
    session.advance(1000)
    tables = ControlService(session).control

    def expected(size: float | None) -> float:
        lanes = {query.id: QueryStatus(size=size) for query in session.catalog.queries()}
        states = States(lambda: {"e1": ExecutorStatus(RUNNING, lanes=lanes)}, {})
        result = answered(replace(tables, states=lambda: states), "EXPLAIN ANALYZE Q")
        at = result.columns.index("expected state")
        return max(float(str(row[at])) for row in result.rows if "Group" in str(row[0]))

    assert expected(None) == expected(1.0) == pytest.approx(400, rel=0.1)
    assert expected(0.25) == pytest.approx(100, rel=0.1)


def test_the_story_of_a_fragment(client: TestClient) -> None:
    told = client.get("/v1/fragments/0/story").json()
    assert [event["text"] for event in told] == [
        'started with plan 3: runs queries "Hot", "Twin"',
        'query "Twin" failed and stops; the others continue: 1 / 0',
    ]
    assert client.get("/v1/fragments/0/story?last=1").json() == told[1:]
    assert client.get("/v1/fragments/0/story?last=0").status_code in (400, 422)
    unknown = client.get("/v1/fragments/7/story")
    assert (unknown.status_code, unknown.json()["error"]["message"], unknown.json()["error"]["hint"]) == (
        404, 'fragment "7" not found', "have: 0"
    )  # fmt: skip
