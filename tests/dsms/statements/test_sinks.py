"""CREATE SINK, ALTER SINK … RESTART and DROP SINK: what they store, who may run them, and what becomes of a sink when
its result changes."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.catalog.catalog_records import catalog_of, first_entry, meta_of
from dsms.model.principal import AccessRules, Caller, Forbidden, Principal
from dsms.model.roles import Role
from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support.statement_cluster import StatementCluster

CREATE = "CREATE SINK s FROM base INTO '/lake/base'"


def caller(role: Role, **patterns: list[str]) -> Caller:
    return Caller(Principal("ann", role, AccessRules.of(**patterns) if patterns else None))


@pytest.fixture
def cluster() -> StatementCluster:
    return StatementCluster(sinks="/lake, delta:s3://lake, postgresql+psycopg://db/shop")


def shown(cluster: StatementCluster) -> list[tuple[object, ...]]:
    """The name, result, target and state of each sink."""
    return [row[:4] for row in cluster.execute("SHOW SINKS")[0].rows]


def created(cluster: StatementCluster, name: str = "s") -> str:
    return str(cluster.execute(f"SHOW CREATE SINK {name}")[0].rows[0][1])


def test_a_sink_is_shown_until_it_is_dropped(cluster: StatementCluster) -> None:
    answer = cluster.execute(CREATE)[0]
    assert answer.message == 'sink "s" created: it keeps view "base" in /lake/base'
    assert shown(cluster) == [("s", "base", "/lake/base", "starting")]
    assert cluster.execute("DROP SINK S")[0].message == "dropped sink s; what it has written stays"
    assert shown(cluster) == []
    with pytest.raises(SqlError, match='sink "s" not found; there is none yet'):
        cluster.execute("DROP SINK s")
    assert cluster.execute("DROP SINK IF EXISTS s")[0].message == 'sink "s" does not exist'


def test_options_are_kept_and_written_back(cluster: StatementCluster) -> None:
    options = "WITH (table = 'shop.base', every = 2.5)"
    cluster.execute(f"CREATE SINK s FROM base INTO 'iceberg:/lake/base' {options}")
    cluster.execute("CREATE SINK log FROM base INTO 'delta:s3://lake/log' WITH (changes = TRUE)")
    assert created(cluster) == f'CREATE SINK "s" FROM "base" INTO \'iceberg:/lake/base\' {options}'
    assert created(cluster, "log").endswith(" WITH (changes = true)")
    text = created(cluster)
    cluster.execute(f"DROP SINK s; {text}")
    assert created(cluster) == text


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("CREATE SINK s FROM nope INTO '/lake/a'", '"nope" not found'),
        ("CREATE SINK s FROM T INTO '/lake/a'", '"T" is a source; a sink keeps a view, a query or a table'),
        ("CREATE SINK s FROM base INTO '/etc/a'", 'target "/etc/a" is not allowed; allowed: /lake'),
        ("CREATE SINK s FROM base INTO lake", "expected a target in quotes"),
        ("CREATE SINK s FROM base INTO '/lake/a' WITH (table = 't')", 'option "table" is only for databases'),
        ("CREATE SINK s FROM base INTO 'sqlite:////lake/a' WITH (changes = true)", "databases get the rows"),
        ("CREATE SINK s FROM base INTO '/lake/a' WITH (every = often)", "EVERY is a number of seconds"),
        ("CREATE SINK s FROM base INTO '/lake/a' WITH (every = -1)", "EVERY is a number of seconds"),
        ("CREATE SINK s FROM base INTO 'delta:/lake/a' WITH (changes = 2)", "CHANGES is true or false"),
        ("CREATE SINK s FROM base INTO '/lake/a' WITH (every = 1, every = 2)", "EVERY is given twice"),
        ("CREATE SINK s FROM base INTO '/lake/a' WITH (often = 1)", 'unknown option "often"'),
        ("CREATE SINK s FROM base INTO 'postgresql+psycopg://ann:pw@db/shop'", "must not contain a password"),
        ("ALTER SINK s SET (every = 2)", "only RESTART is supported"),
        ("ALTER SINK s RESTART", 'sink "s" not found'),
        ("CREATE VIEW dsms_op AS SELECT k AS dsms_op FROM R(S); CREATE SINK s FROM dsms_op INTO '/lake/a'", "reserved"),
    ],
)
def test_wrong_statements_are_refused(cluster: StatementCluster, sql: str, error: str) -> None:
    with pytest.raises(UserError, match=error):
        cluster.execute(sql)
    assert shown(cluster) == []


def test_two_sinks_have_two_names_and_two_targets(cluster: StatementCluster) -> None:
    cluster.execute(CREATE)
    with pytest.raises(SqlError, match='a sink named "S" already exists'):
        cluster.execute("CREATE SINK S FROM q INTO '/lake/other'")
    with pytest.raises(SqlError, match='sink "s" writes to this target'):
        cluster.execute("CREATE SINK other FROM base INTO '/lake/base'")
    kept = created(cluster)
    answer = cluster.execute("CREATE SINK IF NOT EXISTS S FROM q INTO '/lake/other'")[0]
    assert (answer.message, created(cluster)) == ('sink "S" already exists; nothing was done', kept)
    cluster.execute("CREATE SINK IF NOT EXISTS base FROM q INTO '/lake/other'")  # objects have names of their own
    assert [row[0] for row in shown(cluster)] == ["s", "base"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("base INTO '/lake/a'", "base INTO '/lake/a/'"),
        ("base INTO '/lake/a'", "base INTO '/lake/./a'"),
        ("base INTO 'delta:/lake/a/b'", "base INTO 'delta:/lake/a//b/.'"),
        ("base INTO '/lake/a'", "q INTO '/lake/a'"),
        ("base INTO 'delta:/lake/a'", "q INTO 'delta:/lake/a'"),
        ("base INTO 'iceberg:/lake/a'", "q INTO 'iceberg:/lake/a' WITH (table = 'dsms.base')"),
        ("base INTO 'sqlite:////lake/a.db'", "q INTO 'sqlite:////lake/a.db' WITH (table = 'base')"),
    ],
)
def test_one_target_in_two_spellings_is_one(cluster: StatementCluster, first: str, second: str) -> None:
    cluster.execute(f"CREATE SINK s FROM {first}")
    with pytest.raises(SqlError, match='sink "s" writes to this target'):
        cluster.execute(f"CREATE SINK t FROM {second}")


def test_tables_of_one_target_may_have_sinks_each(cluster: StatementCluster) -> None:
    for place in ("iceberg:/lake/i", "sqlite:////lake/a.db"):
        cluster.execute(
            f"CREATE SINK {place[:3]}a FROM base INTO '{place}'; CREATE SINK {place[:3]}b FROM q INTO '{place}'"
        )
    assert len(shown(cluster)) == 4


def test_without_allowed_targets_the_error_says_how_to_allow_them() -> None:
    with pytest.raises(SqlError, match=r"may not write to other systems; .*--sinks PREFIX,… \(DSMS_SINKS"):
        StatementCluster().execute(CREATE)
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE T (a INT) FROM t; CREATE STREAM S OVER T KEY a; CREATE VIEW base AS SELECT a FROM S"
    )
    with pytest.raises(SqlError, match="sinks are on a cluster only"):
        session.execute(CREATE)
    assert session.execute("SHOW SINKS") == []


def test_a_renamed_result_keeps_its_sink(cluster: StatementCluster) -> None:
    cluster.execute(f"{CREATE}; ALTER VIEW base RENAME TO ground")
    assert shown(cluster) == [("s", "ground", "/lake/base", "starting")]
    assert created(cluster) == 'CREATE SINK "s" FROM "ground" INTO \'/lake/base\''
    assert cluster.store.catalog.sinks["s"].known_as == "base"  # the target knows it by this name


def test_a_replaced_result_keeps_its_sink(cluster: StatementCluster) -> None:
    before = cluster.query("base").id
    cluster.execute(f"{CREATE}; CREATE OR REPLACE VIEW base AS SELECT k, v FROM R(S) WHERE v > 7")
    assert cluster.query("base").id != before
    assert shown(cluster) == [("s", "base", "/lake/base", "starting")]


def test_a_result_is_dropped_with_its_sinks_only_by_cascade(cluster: StatementCluster) -> None:
    cluster.execute(f"CREATE VIEW above AS SELECT k FROM base; {CREATE}")
    cluster.execute("CREATE SINK t FROM above INTO '/lake/above'; CREATE SINK u FROM q INTO '/lake/q'")
    with pytest.raises(SqlError, match=r'"q" is used by sink u; drop these first or add CASCADE'):
        cluster.execute("DROP QUERY q")
    with pytest.raises(SqlError, match=r'"base" is used by above, sink s, sink t; drop'):
        cluster.execute("DROP VIEW base")
    assert cluster.execute("DROP VIEW base CASCADE")[0].message == "dropped base, above, sink s, sink t"
    assert [row[0] for row in shown(cluster)] == ["u"]


@pytest.mark.parametrize("sql", [CREATE, "DROP SINK s", "ALTER SINK s RESTART"])
def test_only_administrators_change_sinks(cluster: StatementCluster, sql: str) -> None:
    if sql != CREATE:
        cluster.execute(CREATE)
    with pytest.raises(Forbidden, match="needs the role administrator"):
        cluster.execute(sql, caller("writer"))
    cluster.execute(sql, caller("administrator"))


def test_writers_do_not_drop_the_result_of_a_sink(cluster: StatementCluster) -> None:
    cluster.execute(CREATE)
    with pytest.raises(Forbidden, match='only administrators may drop sink "s"'):
        cluster.execute("DROP VIEW base CASCADE", caller("writer"))
    assert cluster.store.catalog.get("base") is not None
    cluster.execute("ALTER VIEW base RENAME TO ground", caller("writer"))
    assert shown(cluster)[0][1] == "ground"


def test_rules_of_a_token_hide_the_sinks_of_other_results(cluster: StatementCluster) -> None:
    cluster.execute(f"{CREATE}; CREATE SINK t FROM q INTO '/lake/q'")
    few = caller("administrator", read=["q"], write=["t", "u"])
    assert [row[0] for row in cluster.execute("SHOW SINKS", few)[0].rows] == ["t"]
    for sql, error in [
        ("SHOW CREATE SINK s", 'sink "s" not found; have: t'),
        ("DROP SINK s", 'may not write "s"'),
        ("CREATE SINK u FROM base INTO '/lake/u'", 'may not read "base"'),
    ]:
        with pytest.raises(UserError, match=error):
            cluster.execute(sql, few)
    cluster.execute("DROP SINK t", few)


def test_rules_of_a_token_protect_sinks_from_cascades(cluster: StatementCluster) -> None:
    cluster.execute(CREATE)
    rules = {"read": ["*"], "write_topics": ["*"]}
    with pytest.raises(Forbidden, match='may not write "s"'):
        cluster.execute("DROP VIEW base CASCADE", caller("administrator", write=["base"], **rules))
    cluster.execute("DROP VIEW base CASCADE", caller("administrator", write=["base", "s"], **rules))
    assert shown(cluster) == []


def test_a_sink_has_a_comment(cluster: StatementCluster) -> None:
    cluster.execute(f"{CREATE}; COMMENT ON SINK s IS 'for the shop''s reports'")
    assert cluster.execute("SHOW SINKS")[0].rows[0][-1] == "for the shop's reports"
    assert created(cluster).endswith("COMMENT ON SINK \"s\" IS 'for the shop''s reports'")
    cluster.execute("COMMENT ON SINK s IS NULL")
    assert cluster.execute("SHOW SINKS")[0].rows[0][-1] is None


def test_the_log_has_the_sinks_and_a_copied_cluster_does_not(cluster: StatementCluster) -> None:
    cluster.execute(CREATE)
    catalog = cluster.store.catalog
    assert catalog_of(meta_of(catalog, 1), catalog.objects) == catalog
    entries = {b"catalog": msgspec.json.encode(meta_of(catalog, 1))}
    assert b'"sinks":[]' in first_entry(entries)


def test_a_restart_is_counted(cluster: StatementCluster) -> None:
    cluster.execute(f"{CREATE}; ALTER SINK s RESTART")
    assert (cluster.store.catalog.sinks["s"].restarts, cluster.store.catalog.sinks["s"].cleared) == (1, 0)
