"""CREATE TABLE: a table, whose log is a new topic."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import ROW_NUMBER, Query, Source, Table
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_result
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.queries import RESULT_PREFIX
from dsms.sql.binder.table_constraints import check_expressions
from dsms.sql.parser import tables as syntax
from dsms.statements.ddl.create_stream import create_stream
from dsms.statements.ddl.register_source import register_source
from dsms.statements.statement_kind import StatementKind, changes_named


def create_table(statement: st.CreateTable, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a table, and creates the topic of its log. The declaration is checked like a source with a keyed stream over
    it, because queries read a table in that form."""
    check_free(catalog, statement.name)
    for column in statement.columns:
        if column.name.text.lower() == ROW_NUMBER:
            raise column.name.place.error(
                f'column name "{ROW_NUMBER}" is reserved: it numbers the rows of tables without a key'
            )
    if not statement.keys:
        statement = _numbered(statement)
    columns = len(statement.columns)
    environment.limits.check("columns", columns, "the table has {} columns", statement.name.place)
    check_result(RESULT_PREFIX + statement.name.text, catalog, environment.may_read)
    source, keys = _checked(statement, catalog)
    check_expressions(statement, source.schema, catalog)
    logged = _with_topic(source, keys, environment)
    defaults = {name.text: written.text for name, written in statement.defaults}
    checks = {name: written.text for name, written in statement.checks}
    table = Table(
        name=source.name, id=source.id, sql=statement.sql, source=logged, keys=keys, defaults=defaults, checks=checks
    )
    result = StatementResult(
        "CREATE TABLE",
        f'table "{table.name}" created; its changes are in topic "{table.topic}"',
        notices=(f"no key: {ROW_NUMBER} distinguishes equal rows" if table.is_bag else f"key: {', '.join(keys)}",),
        name=table.name,
    )
    return catalog.with_object(table), result


def _numbered(statement: st.CreateTable) -> st.CreateTable:
    """The statement with a column that numbers the rows, as its key."""
    name = st.Name(ROW_NUMBER, statement.name.place)
    return replace(statement, columns=(*statement.columns, st.ColumnDefinition(name, "BIGINT", False)), keys=(name,))


def _checked(statement: st.CreateTable, catalog: Catalog) -> tuple[Source, tuple[str, ...]]:
    """The source and the key that REGISTER SOURCE and CREATE STREAM would derive from the declaration."""
    name, scratch = statement.name, st.Name(f"{statement.name.text}_key", statement.name.place)
    alone = Catalog(ids=catalog.ids, schemas=catalog.schemas)
    topic = st.Name(RESULT_PREFIX + name.text, name.place)
    declared, _ = register_source(
        st.RegisterSource(name, statement.columns, topic, (), statement.sql), alone, Environment()
    )
    keyed, _ = create_stream(st.CreateStream(scratch, name, statement.keys, statement.sql), declared, Environment())
    number = catalog.next_number()
    source = msgspec.structs.replace(declared.sources()[0], idle_ms=None, ahead_ms=None, table=True, number=number)
    return source, keyed.streams()[0].keys


def _with_topic(source: Source, keys: tuple[str, ...], environment: Environment) -> Source:
    """The source over a new topic, which is created like that of a complete result: empty, and never truncated."""
    draft = Query(name=source.name, id=source.id, sql="", kind="view", select="", topic=source.topic, output="complete")
    made = environment.result_topic(draft, logical.StreamScan(source, source.name, keys))
    start = environment.source_topic(source.name, made.topic, made.partitions)
    topic_id = environment.topic_id(made.topic)
    known = {"topic_id": topic_id, "marked_by": made.marked_by}
    return msgspec.structs.replace(source, start=start, partitions=len(start), **known)


KIND = StatementKind(
    statement=st.CreateTable,
    starts={("CREATE", "TABLE"): syntax.create_table},
    apply=create_table,
    changed_names=changes_named,
    declaration_reads=lambda _: [],
    words=("PRIMARY", "KEY"),
)
