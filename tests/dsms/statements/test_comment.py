"""COMMENT ON: comments are stored in the catalog, and shown by DESCRIBE and SHOW CREATE."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.catalog.catalog_records import Meta, catalog_of, meta_of
from dsms.statements.ddl.comment import MAX_CHARACTERS
from dsms.testing import LocalSession
from operators.core.errors import UserError

OBJECTS = """
REGISTER SOURCE a (k INT, v INT) FROM a; CREATE STREAM S OVER a KEY k; CREATE TABLE T (k INT PRIMARY KEY, x INT);
CREATE VIEW V AS SELECT k, v FROM S; CREATE QUERY Q AS SELECT k FROM S;
CREATE STREAM E (k INT) SOURCE 'e'; CREATE STREAM D AS SELECT k FROM E
"""


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute(OBJECTS)
    return made


def comment_in(session: LocalSession, name: str) -> str:
    """The text that follows the CREATE statement of an object."""
    return session.execute(f"SHOW CREATE {name}")[0]["sql"].partition(";\n")[2]


@pytest.mark.parametrize(
    "on", ["SOURCE a", "STREAM S", "TABLE T", "VIEW V", "QUERY Q", "MATERIALIZED VIEW v", "STREAM D"]
)
def test_an_object_has_a_comment_until_it_is_removed(session: LocalSession, on: str) -> None:
    name = on.split()[-1]
    session.execute(f"COMMENT ON {on} IS 'the customer''s rows'")
    assert session.run(f"DESCRIBE {name}")[0].message.endswith("; the customer's rows")
    assert comment_in(session, name).endswith(" IS 'the customer''s rows'")
    session.execute(f"COMMENT ON {on} IS NULL")
    assert comment_in(session, name) == ""
    assert session.catalog.comments == {}


def test_columns_have_comments(session: LocalSession) -> None:
    session.execute("COMMENT ON COLUMN T.X IS 'a value'; COMMENT ON COLUMN public.v.k IS 'a key'")
    assert [(row["column"], row["comment"]) for row in session.execute("DESCRIBE T")] == [("k", None), ("x", "a value")]
    assert comment_in(session, "V") == """COMMENT ON COLUMN "V"."k" IS 'a key'"""


def test_what_show_create_gives_creates_the_same_comments(session: LocalSession) -> None:
    session.execute("COMMENT ON TABLE T IS 'it''s'; COMMENT ON COLUMN T.x IS 'x; y'")
    other = LocalSession()
    other.execute(session.execute("SHOW CREATE T")[0]["sql"])
    assert other.catalog.comments == session.catalog.comments == {"t": {"": "it's", "x": "x; y"}}


def test_replacing_keeps_comments_and_dropping_removes_them(session: LocalSession) -> None:
    session.execute("COMMENT ON VIEW V IS 'a'; COMMENT ON TABLE T IS 'b'")
    session.execute("CREATE OR REPLACE VIEW V AS SELECT k, v FROM S WHERE k > 1")
    assert session.catalog.comments == {"v": {"": "a"}, "t": {"": "b"}}
    session.execute("DROP VIEW V; CREATE VIEW V AS SELECT k FROM S")
    assert session.catalog.comments == {"t": {"": "b"}}


def test_the_log_of_the_catalog_stores_comments(session: LocalSession) -> None:
    session.execute("COMMENT ON COLUMN T.x IS 'x'")
    stored = msgspec.json.decode(msgspec.json.encode(meta_of(session.catalog, 1)), type=Meta)
    assert catalog_of(stored, session.catalog.objects).comments == {"t": {"x": "x"}}
    assert catalog_of(stored, {}).comments == {}
    earlier = msgspec.json.decode(b'{"version": 3, "ids": 2, "term": 1}', type=Meta)
    assert catalog_of(earlier, session.catalog.objects).comments == {}


def test_a_comment_changes_no_running_query(session: LocalSession) -> None:
    before = session.catalog
    session.execute("COMMENT ON SOURCE a IS 'x'; COMMENT ON SOURCE a IS 'x'")
    assert session.catalog.objects == before.objects
    assert session.catalog.version == before.version + 1, "the second statement changes nothing"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("COMMENT ON VIEW T IS 'x'", 'line 1, column 17: "T" is a table, not a view'),
        ("COMMENT ON TABLE nope IS 'x'", 'line 1, column 18: "nope" not found'),
        ("COMMENT ON COLUMN T.nope IS 'x'", 'line 1, column 21: column "nope" not found in "T"; have: k, x'),
        ("COMMENT ON COLUMN T IS 'x'", "line 1, column 21: expected ., found"),
        ("COMMENT ON TABLE T IS 5", "line 1, column 23: expected a text or NULL"),
        ("COMMENT ON DATABASE dsms IS 'x'", 'line 1, column 12: unknown kind "DATABASE"; have: TABLE, SOURCE, STREAM'),
        (f"COMMENT ON TABLE T IS '{'x' * (MAX_CHARACTERS + 1)}'", "a comment has at most 2000 characters, not 2001"),
    ],
)
def test_wrong_comments_are_refused(session: LocalSession, statement: str, why: str) -> None:
    with pytest.raises(UserError) as refused:
        session.execute(statement)
    assert why in str(refused.value)
