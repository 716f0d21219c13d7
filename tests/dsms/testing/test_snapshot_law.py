"""Snapshot law: the relation of a view at τ is its SQL over its input at τ, for every τ below the frontier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support import oracle, strategies
from tests.support.oracle import Duck, Relations
from tests.support.strategies import END, History, View

DUCK = Duck()
RANGE = range(-1, END)


def replay(session: LocalSession, history: History) -> None:
    for event, record in history.events:
        if record is not None:
            session.push("T", [record])
        else:
            session.advance(event.ts)
    session.advance(END)


def over(view: View, relations: Relations, schema, table: str) -> Relations:
    """The relations of a view, computed from its definition instant by instant."""
    by_instant: Relations = {}
    previous = None
    for at, rows in relations.items():
        if previous is not None and rows == relations[previous]:
            by_instant[at] = by_instant[previous]
        else:
            by_instant[at] = DUCK.rows(view.select(table), table, rows, schema)
        previous = at
    return by_instant


def visible(relations: Relations) -> Relations:
    return {at: [{k: v for k, v in row.items() if k != "TS"} for row in rows] for at, rows in relations.items()}


def assert_relations(session: LocalSession, name: str, expected: Relations) -> None:
    for at, rows in expected.items():
        assert oracle.bag(session.relation(name, at=at)) == oracle.bag(rows), f"{name} at {at}"


@given(strategies.histories(), st.data(), st.sampled_from([(1, None), (1, 1), (3, 2), (2, 5)]))
def test_relation_of_every_view_at_every_instant(history: History, data: st.DataObject, cut) -> None:
    shape = history.shape
    session = LocalSession(*cut)
    session.execute(shape.sql)
    columns = frozenset(strategies.COLUMNS)
    first = data.draw(strategies.views("V", "S", columns, ts=True), "V")
    session.execute(first.sql)
    second = data.draw(strategies.views("W", "V", frozenset(name for _, name in first.outputs), ts=True), "W")
    keys = first.keys(shape.keys)
    names = {name for _, name in first.outputs}
    refused = second.uses_ts and "TS" not in names and bool(shape.keys) and not keys
    if refused:
        with pytest.raises(SqlError, match='TS of "V" is ambiguous'):
            session.execute(second.sql)
    else:
        session.execute(second.sql)
    replay(session, history)

    accepted, late = oracle.accept(history.seen, shape.slack)
    stream = {at: oracle.stream_at(accepted, shape.keys, at) for at in RANGE}
    relation = over(first, stream, shape.schema, "S")
    assert_relations(session, "S", visible(stream))
    assert_relations(session, "V", relation)
    if not refused:
        schema = DUCK.schema(first.select("S"), "S", shape.schema)
        if "TS" not in names and (keys or not shape.keys):
            relation = oracle.restamped(relation, keys)
            schema = schema.append(shape.schema.field("TS"))
        assert_relations(session, "W", over(second, relation, schema, "V"))
    letters = [letter for letter in session.dead_letters("T") if letter["query"] is None]
    assert [letter["offset"] for letter in letters if letter["reason"].startswith("late")] == late


@given(strategies.histories(), st.data(), st.integers(1, 3))
def test_changes_of_a_keyed_view_are_its_net_changes(history: History, data: st.DataObject, partitions: int) -> None:
    shape = history.shape
    session = LocalSession(partitions)
    session.execute(shape.sql)
    view = data.draw(strategies.views("V", "S", frozenset(strategies.COLUMNS), ts=True))
    session.execute(view.sql)
    replay(session, history)

    accepted, _ = oracle.accept(history.seen, shape.slack)
    stream = {at: oracle.stream_at(accepted, shape.keys, at) for at in RANGE}
    changes = session.changes("V")
    assert [ts for _, _, ts in changes] == sorted(ts for _, _, ts in changes)
    if keys := view.keys(shape.keys):
        expected = oracle.keyed_changes(over(view, stream, shape.schema, "S"), keys)
        assert oracle.change_bag(changes) == oracle.change_bag(expected)
    if not shape.keys:
        assert {op for op, _, _ in changes} <= {"+"}


@given(strategies.histories())
def test_every_refused_record_is_a_dead_letter_once(history: History) -> None:
    session = LocalSession(2, 3)
    session.execute(history.shape.sql)
    replay(session, history)
    accepted, late = oracle.accept(history.seen, history.shape.slack)
    records = [event for event, record in history.events if record is not None]
    bad = [at for at, event in enumerate(records) if isinstance(event, oracle.Bad)]
    refused = [letter["offset"] for letter in session.dead_letters("T") if letter["query"] is None]
    assert refused == sorted([*late, *bad])
    by_stream = [letter["offset"] for letter in session.dead_letters("T") if letter["query"] == "S"]
    deletions = [at for at, event in enumerate(records) if isinstance(event, oracle.Record) and event.deletion]
    assert by_stream == ([] if history.shape.keys else [at for at in deletions if at not in late])
