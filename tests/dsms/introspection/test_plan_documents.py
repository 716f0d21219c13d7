"""Plans as documents: importing an exported document in any order gives the same catalog; importing it again changes
nothing."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from fastapi.testclient import TestClient

from dsms.cli.main import run
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.introspection.plan_documents import Document, PlanObject, document, read_document, to_xml
from dsms.statements.document_import import planned_import
from operators.core.errors import UserError
from tests.dsms.introspection.test_control import ControlService, LocalSession
from tests.support.http_server_thread import serving

SQL = """REGISTER SOURCE T (room VARCHAR, t INT) FROM t; CREATE STREAM S OVER T KEY room;
CREATE STREAM Plain (a INT, b VARCHAR) SOURCE 'plain';
CREATE TABLE Limits (room VARCHAR PRIMARY KEY, most INT);
CREATE STREAMED VIEW Hot AS SELECT room, t FROM R(S) WHERE t > 80 AND room <> '<&"é';
CREATE QUERY Over AS SELECT h.room, h.t FROM Hot h JOIN Limits l ON h.room = l.room WHERE h.t > l.most;
CREATE QUERY Counts AS SELECT room, COUNT(*) AS n FROM S [Range 10] GROUP BY room;
ALTER QUERY Counts SET (weight = 2.5); PAUSE QUERY Over"""


def made() -> LocalSession:
    session = LocalSession()
    session.execute(SQL)
    return session


def client_of(session: LocalSession) -> TestClient:
    app = create_app(ControlService(session), SchemaRegistry(lambda _: None))
    return TestClient(app, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("form", ["json", "xml"])
def test_an_export_is_imported_once(form: str) -> None:
    body = client_of(made()).get("/v1/plan", params={"format": form}).content
    other = LocalSession()
    client = client_of(other)
    first = client.post("/v1/plan", content=body).json()
    names = ["T", "S", "Plain_source", "Plain", "Limits", "Hot", "Over", "Counts"]
    assert sorted(first["made"]) == sorted(names) and first["there"] == []
    assert other.catalog.find("Counts").weight == 2.5 and other.catalog.find("Over").paused  # type: ignore[union-attr]
    version = other.catalog.version
    second = client.post("/v1/plan", content=body).json()
    assert (second["made"], sorted(second["there"])) == ([], sorted(names)) and other.catalog.version == version
    records = [{"room": "a", "t": 90, "ts": 1}, {"room": "b", "t": 70, "ts": 2}]
    for session in (original := made(), other):
        session.push("T", records)
        session.advance(9)
    assert other.changes("Hot") == original.changes("Hot") == [("+", {"room": "a", "t": 90}, 1)]


@pytest.mark.parametrize("form", ["json", "xml"])
def test_an_import_says_which_queries_read_other_columns_than_before(form: str) -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE A (k INT, v INT) FROM a; CREATE STREAM S OVER A KEY k")
    session.execute(
        "CREATE VIEW V AS SELECT * FROM R(S); ALTER SOURCE A ADD COLUMN w INT; CREATE VIEW W AS SELECT * FROM R(S)"
    )
    body = client_of(session).get("/v1/plan", params={"format": form}).content
    other = LocalSession()
    client = client_of(other)
    before = 'where it was exported it reads source "A" with the columns that it had before ALTER: k, v'
    assert client.post("/v1/plan", content=body).json()["notices"] == [f'view "V" reads the current columns; {before}']
    assert [row["column"] for row in other.execute("DESCRIBE V")] == ["k", "v", "w"]
    assert client.post("/v1/plan", content=body).json()["notices"] == []
    restricted = document(session.catalog, lambda name: name == "V")
    assert [entry.notices for entry in restricted.objects] == [()]


def test_the_order_of_a_document_does_not_matter() -> None:
    exported = document(made().catalog)
    other = LocalSession()
    other.execute(";".join(planned_import(Document(exported.objects[::-1]), other.catalog).statements))
    assert {entry.name for entry in document(other.catalog).objects} == {entry.name for entry in exported.objects}


def test_the_name_of_an_object_is_quoted() -> None:
    """A name in a document may be any text. It is always quoted, so that it cannot add to a statement."""
    quoted = '"q""; DROP QUERY ""other"'
    sql = "SELECT STREAMED room FROM S"
    entry = PlanObject('q"; DROP QUERY "other', "query", sql, weight=2.0, paused=True)
    statements = planned_import(Document((entry,)), made().catalog).statements
    assert statements == (sql, f"ALTER QUERY {quoted} SET (weight = 2.0)", f"PAUSE QUERY {quoted}")


EDITS = [
    ("json", b'"does":"Filter ', b'"does":"Filter t > 7 AND '),
    ("json", b'"length":"10"', b'"length":"20"'),
    ("json", b'"columns":[{"name":"room"', b'"columns":[{"name":"place"'),
    ("xml", b'does="Filter ', b'does="Filter t &gt; 7 AND '),
    ("xml", b'name="length" value="10"', b'name="length" value="20"'),
    ("xml", b'<column name="n"', b'<column name="m"'),
]


@pytest.mark.parametrize(("form", "before", "after"), EDITS)
def test_an_edited_plan_is_refused(form: str, before: bytes, after: bytes) -> None:
    body = client_of(made()).get("/v1/plan", params={"format": form}).content
    assert before in body
    answer = client_of(LocalSession()).post("/v1/plan", content=body.replace(before, after))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert "was edited, but plans follow from the statements" in error["message"]
    assert error["hint"] == "edit the statement, and leave the plan as it was or remove it"


@pytest.mark.parametrize("form", ["json", "xml"])
def test_edited_statements_and_removed_plans_are_honoured(form: str) -> None:
    exported = document(made().catalog)
    edited = tuple(
        msgspec.structs.replace(entry, statement=entry.statement.replace("t > 80", "t > 7"))
        if entry.name == "Hot"
        else msgspec.structs.replace(entry, plan=None)
        for entry in exported.objects
    )
    body = to_xml(Document(edited)) if form == "xml" else msgspec.json.encode(Document(edited))
    other = LocalSession()
    assert client_of(other).post("/v1/plan", content=body).status_code == 200
    assert "t > 7 " in other.catalog.find("Hot").sql


def test_documents_of_versions_without_digests_are_imported() -> None:
    exported = document(made().catalog)
    older = Document(tuple(msgspec.structs.replace(entry, digest="") for entry in exported.objects))
    assert read_document(to_xml(older)) == older


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM other OVER T KEY NULL", 'the statement of "S" creates "other"'),
        ("CREATE QUERY Q AS SELECT room FROM S", 'the statement of "S" creates "Q"'),
    ],
)
def test_a_name_that_is_not_that_of_the_statement_is_refused(statement: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned_import(Document((PlanObject("S", "stream", statement),)), LocalSession().catalog)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"objects": [{"name": "s", "kind": "source", "statement": "x", "wait": 2}]}', "unknown field `wait`"),
        (b'{"objects": [], "statements": []}', "unknown field `statements`"),
        (
            b'<plan format="1"><object name="s" kind="source" wait="2"><statement>x</statement></object></plan>',
            '"wait"',
        ),
        (b'<plan format="1"><objekt/></plan>', "<objekt>"),
        (b'<plan format="1"><object name="s"><statement>x</statement><plan/></object></plan>', "<plan>"),
        (b'<plan format="1"><object name="s" paused="yes"><statement>x</statement></object></plan>', '"yes"'),
    ],
)
def test_what_a_document_does_not_have_is_refused(body: bytes, what: str) -> None:
    with pytest.raises(UserError, match=what):
        read_document(body)


def test_a_plan_is_nested_operators_with_attributes() -> None:
    catalog = made().catalog
    root = ElementTree.fromstring(to_xml(document(catalog)))
    (counts,) = [element for element in root.findall("object") if element.get("name") == "Counts"]
    kinds = [element.get("kind") for element in counts.iter("operator")]
    assert kinds[0] == "Project" and {"GroupBy", "TimeWindow", "StreamScan"} <= set(kinds)
    (window,) = [element for element in counts.iter("operator") if element.get("kind") == "TimeWindow"]
    assert {element.get("name"): element.get("value") for element in window.findall("attribute")}["length"] == "10"
    assert counts.find("operator").get("key") == "room"  # type: ignore[union-attr]
    (hot,) = [element for element in root.findall("object") if element.get("name") == "Hot"]
    assert hot.findtext("statement") == catalog.find("Hot").sql


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not a plan"),
        (b"<plan", "not a plan"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><plan/>", "DOCTYPE"),
        (b"<other/>", "starts with <other>"),
        (b"<plan format='2'/>", "format 2"),
        (b"<plan format='x'/>", "not a plan"),
        (b"<plan format='1'><object name='a'/></plan>", "needs a name"),
        (b"\xff\xfe<\x00p\x00", "not a plan"),
        (b'{"objects": [], "format": 3}', "format 3"),
        (b"[" * 100_000, "not a plan"),
    ],
)
def test_an_invalid_document_is_refused(body: bytes, why: str) -> None:
    answer = client_of(LocalSession()).post("/v1/plan", content=body)
    assert answer.status_code == 400 and why in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("COPY t FROM '/etc/passwd'", "does not declare"),
        ("DROP SOURCE T CASCADE", "does not declare"),
        ("SELECT 1; SELECT 2", "does not declare"),
        ("REGISTER", "is invalid"),
        ("", "does not declare"),
        ("CREATE STREAM S OVER T KEY NULL", 'another object is named "S"'),
    ],
)
def test_a_statement_that_declares_nothing_refuses_the_document(statement: str, why: str) -> None:
    session = made()
    good = PlanObject("fine", "stream", "CREATE STREAM fine OVER T KEY NULL")
    body = msgspec.json.encode(Document((good, PlanObject("S", "stream", statement))))
    answer = client_of(session).post("/v1/plan", content=body)
    assert answer.status_code == 400 and why in answer.json()["error"]["message"]
    assert session.catalog.get("fine") is None


def test_a_cycle_is_refused() -> None:
    views = [PlanObject(a, "view", f"CREATE STREAMED VIEW {a} AS SELECT x FROM {b}") for a, b in ("vw", "wv")]
    with pytest.raises(UserError, match="cycle"):
        planned_import(Document(tuple(views)), LocalSession().catalog)


def test_the_command_line(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file, other = tmp_path / "plan.xml", LocalSession()
    with serving(create_app(ControlService(made()), SchemaRegistry(lambda _: None))) as url:
        assert run(["plan", "export", "--format", "xml", "--coordinator", url]) == 0
    file.write_bytes(capfdbinary.readouterr().out)
    with serving(create_app(ControlService(other), SchemaRegistry(lambda _: None))) as url:
        for expected in (b"8 created, 0 existed", b"0 created, 8 existed"):
            assert run(["plan", "import", str(file), "--coordinator", url]) == 0
            assert expected in capfdbinary.readouterr().err


def test_json_and_xml_are_equivalent() -> None:
    exported = document(made().catalog)
    assert read_document(to_xml(exported)).objects == exported.objects
    assert read_document(msgspec.json.encode(exported)).objects == exported.objects
